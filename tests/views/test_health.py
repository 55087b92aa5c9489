"""The health page: who sees what, and what it costs nobody to ask."""

import threading

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connections
from django.urls import include, path, reverse

from tests.taskbackend.shop import tasks
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.watching import Finding
from tinyjobs.operations.timely import begin
from tinyjobs.taskbackend import checking as of_alias
from tinyjobs.testing import drain

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
urlpatterns = [path("tinyjobs/", include("tinyjobs.urls"))]

TOKEN = "a-token-of-some-length"
URL = "/tinyjobs/health/"
PATIENCE = 60.0
WELL = Finding(name="settings", ok=True, message="As it should be.")


@pytest.fixture(autouse=True)
def store_set_up_well(monkeypatch):
    """Whatever this machine's disk and the tests' server are like."""

    async def audit(self):
        return [WELL]

    monkeypatch.setattr("tinyjobs.taskbackend.shared.JoinedStore.audit", audit)


@pytest.fixture
def with_token(settings):
    options = {"monitoring_token": TOKEN}
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}


@pytest.fixture
def badly(monkeypatch):
    """Something is wrong with the store."""

    async def audit(self):
        return [Finding(name="free_space", ok=False, message="No room in /srv.", remedy="Make room.")]

    monkeypatch.setattr("tinyjobs.taskbackend.shared.JoinedStore.audit", audit)


@pytest.fixture
def staff(client):
    client.force_login(get_user_model().objects.create_user("ann", is_staff=True))
    return client


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_it_has_a_name():
    assert reverse("tinyjobs:health") == URL


def test_all_is_well(client):
    answer = client.get(URL)
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok"}
    assert answer.headers["Content-Type"] == "application/json"
    assert "no-store" in answer.headers["Cache-Control"]


@pytest.mark.usefixtures("badly")
def test_something_is_wrong_and_anybody_may_know_that_much(client):
    answer = client.get(URL)
    assert answer.status_code == 503
    assert answer.json() == {"status": "failing"}
    assert "no-store" in answer.headers["Cache-Control"]


@pytest.mark.usefixtures("badly")
def test_staff_see_what_was_found(staff):
    answer = staff.get(URL)
    assert answer.status_code == 503
    first = answer.json()["backends"]["default"][0]
    assert first == {
        "name": "free_space",
        "ok": False,
        "message": "No room in /srv.",
        "remedy": "Make room.",
        "is_warning": False,
        "is_unknown": False,
    }


def test_users_that_are_not_staff_see_the_verdict_alone(client):
    client.force_login(get_user_model().objects.create_user("bob"))
    assert client.get(URL).json() == {"status": "ok"}


@pytest.mark.usefixtures("with_token")
def test_the_token_shows_what_was_found(client):
    told = client.get(URL, headers=bearer(TOKEN)).json()
    assert {finding["name"] for finding in told["backends"]["default"]} >= {"tasks", "leases", "waiting", "settings"}


@pytest.mark.usefixtures("with_token")
def test_a_wrong_token_shows_nothing_and_still_gets_the_verdict(client):
    answer = client.get(URL, headers=bearer("wrong"))
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok"}


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_only_get_and_head(client, method):
    assert getattr(client, method)(URL).status_code == 405


@pytest.mark.usefixtures("badly")
def test_head_is_answered_without_a_body(client):
    answer = client.head(URL)
    assert (answer.status_code, answer.content) == (503, b"")


def test_store_warnings_are_asked_for_in_the_address(client, badly):
    assert client.get(f"{URL}?store_warnings=1").status_code == 200
    assert client.get(f"{URL}?store_warnings=0").status_code == 503


def test_a_job_that_waits_longer_than_the_address_allows(staff):
    tasks.add.enqueue(1, 2)
    assert staff.get(f"{URL}?max_wait=3600").status_code == 200
    answer = staff.get(f"{URL}?max_wait=0")
    assert answer.status_code == 503
    assert "waiting" in {finding["name"] for finding in answer.json()["backends"]["default"] if not finding["ok"]}
    drain()
    assert staff.get(f"{URL}?max_wait=0").status_code == 200


@pytest.mark.parametrize("query", ["max_wait=x", "max_wait=-1", "max_wait=nan", "store_warnings=perhaps"])
def test_an_address_that_makes_no_sense(client, query):
    answer = client.get(f"{URL}?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["error"]


def test_an_alias_that_is_not_there(client):
    assert client.get(f"{URL}?backend=nope").status_code == 404


def test_without_an_alias_all_of_them_are_asked(staff, settings):
    settings.TASKS = {
        "default": {"BACKEND": "tinyjobs.TinyJobsBackend"},
        "later": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"url": "memory://"}},
        "plain": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
    }
    assert set(staff.get(URL).json()["backends"]) == {"default", "later"}
    assert set(staff.get(f"{URL}?backend=later").json()["backends"]) == {"later"}
    assert staff.get(f"{URL}?backend=plain").status_code == 404


def test_wrong_settings_are_a_finding(staff, settings):
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"leese": 3}}}
    answer = staff.get(URL)
    assert answer.status_code == 503
    (found,) = answer.json()["backends"]["default"]
    assert "leese" in found["message"]


def test_a_store_out_of_reach(staff, monkeypatch):
    async def stats(self):
        raise StoreUnavailableError("nobody answers")

    monkeypatch.setattr("tinyjobs.taskbackend.shared.JoinedStore.stats", stats)
    answer = staff.get(URL)
    assert answer.status_code == 503
    (found,) = answer.json()["backends"]["default"]
    assert "nobody answers" in found["message"]


def test_sessions_out_of_reach_hide_what_was_found(staff, monkeypatch):
    """Who asks may have a session, and it may be in the very database that does not answer."""

    def gone(self):
        raise OperationalError("no connection")

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", gone)
    assert staff.get(URL).json() == {"status": "ok"}


def test_it_begins_no_transaction_of_a_request(client, monkeypatch):
    for alias in connections:
        monkeypatch.setitem(connections[alias].settings_dict, "ATOMIC_REQUESTS", True)
    began = []
    monkeypatch.setattr("django.core.handlers.base.transaction.atomic", lambda using: began.append(using))
    assert client.get(URL).status_code == 200
    assert began == []


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_it_looks_on_a_thread_and_leaves_no_connection(client, monkeypatch):
    looked = []
    look = of_alias._look

    def noting(*arguments, **options):
        try:
            return look(*arguments, **options)
        finally:
            looked.append((threading.current_thread(), connections["default"]))

    monkeypatch.setattr(of_alias, "_look", noting)
    assert client.get(URL).status_code == 200
    ((thread, connection),) = looked
    assert thread is not threading.current_thread()
    assert connection.connection is None


@pytest.mark.django_db(transaction=True)
def test_a_store_that_hangs_is_answered_for_in_time(client, monkeypatch):
    """Not told how long it takes: the budget is made short, and the look waits until the test is over."""
    over, looks = threading.Event(), threading.Semaphore(0)

    async def hang(self):
        looks.release()
        over.wait(60)
        raise StoreUnavailableError("nobody answers")

    monkeypatch.setattr(of_alias, "BUDGET", 0.2)
    monkeypatch.setattr("tinyjobs.taskbackend.shared.JoinedStore.stats", hang)
    try:
        queries = ["", *(f"?max_wait={seconds}&store_warnings={seconds % 2}" for seconds in range(5))]
        assert [client.get(URL + query).status_code for query in queries] == [503] * 6
        assert looks.acquire(timeout=PATIENCE)
        assert not looks.acquire(blocking=False), "each probe began a look of its own"
    finally:
        over.set()


@pytest.mark.django_db(transaction=True)
def test_stores_that_hang_are_waited_for_together(client, settings, monkeypatch, tmp_path):
    """Each look has begun before the first is waited for, so three of them take no longer than one."""
    over, looks = threading.Event(), threading.Semaphore(0)

    async def hang(self):
        looks.release()
        over.wait(60)
        raise StoreUnavailableError("nobody answers")

    settings.TASKS = {
        name: {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"url": f"sqlite:///{tmp_path}/{name}.db"}}
        for name in ("a", "b", "c")
    }
    monkeypatch.setattr(of_alias, "BUDGET", 60.0)
    monkeypatch.setattr("tinyjobs.taskbackend.checking.look_for_store", lambda shared: None)
    monkeypatch.setattr("tinyjobs.taskbackend.checking.check_layout", lambda shared: None)
    monkeypatch.setattr("tinyjobs.taskbackend.checking.look", hang)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(client.get(URL).status_code))
    asking.start()
    try:
        assert [looks.acquire(timeout=PATIENCE) for _ in range(3)] == [True] * 3
    finally:
        over.set()
        asking.join()
    assert answers == [503]


@pytest.mark.usefixtures("badly")
@pytest.mark.django_db(transaction=True)
def test_what_an_address_allows_is_applied_to_a_look_that_is_shared(client, monkeypatch):
    answers = {}

    def once(kind, look):
        if kind not in answers:
            answers[kind] = begin(kind, look)
        return answers[kind]

    monkeypatch.setattr(of_alias, "begin", once)
    assert client.get(f"{URL}?store_warnings=1").status_code == 200
    assert client.get(f"{URL}?store_warnings=0").status_code == 503
    assert client.get(f"{URL}?store_warnings=1&max_wait=3600").status_code == 200
    assert len(answers) == 1
