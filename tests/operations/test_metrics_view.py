"""The metrics view of a Django project: who may read it, and what it says."""

import threading

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection
from django.urls import include, path, reverse

from tests.operations.test_metrics import read
from tests.taskbackend.shop import tasks
from tinyjobs.operations.metrics import CONTENT_TYPE
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.shared import JoinedStore
from tinyjobs.testing import drain

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
urlpatterns = [path("tinyjobs/", include("tinyjobs.urls"))]

TOKEN = "a-token-of-some-length"
URL = "/tinyjobs/metrics"
PATIENCE = 60.0


@pytest.fixture
def with_token(settings):
    options = {"monitoring_token": TOKEN}
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}


@pytest.fixture
def staff(client):
    client.force_login(get_user_model().objects.create_user("ann", is_staff=True))
    return client


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_the_figures_of_the_alias(staff):
    counted = ("tinyjobs_jobs_total", tasks.add.module_path, "success")
    before = read(staff.get(URL).content.decode()).get(counted, 0)  # by this process, whatever ran in it
    tasks.add.enqueue(1, 2)
    tasks.add.enqueue(1, 2)
    drain(limit=1)
    answer = staff.get(URL)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == CONTENT_TYPE
    assert "no-store" in answer.headers["Cache-Control"]
    samples = read(answer.content.decode())
    assert samples["tinyjobs_store_up",] == 1
    assert samples["tinyjobs_store_due_jobs", "default"] == 1
    assert samples["tinyjobs_store_ended_jobs", "success"] == 1
    assert ("tinyjobs_store_oldest_due_seconds", "default") in samples
    assert samples[counted] == before + 1


def test_it_has_a_name():
    assert reverse("tinyjobs:metrics") == URL


def test_nobody_reads_it_without_being_staff(client):
    answer = client.get(URL)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    client.force_login(get_user_model().objects.create_user("bob"))
    assert client.get(URL).status_code == 403
    client.force_login(get_user_model().objects.create_user("eve", is_staff=True, is_active=False))
    assert client.get(URL).status_code == 401


@pytest.mark.parametrize("kind", ["Bearer", "bearer", "BEARER"])
def test_the_token_opens_it(client, with_token, kind):
    assert client.get(URL, headers={"Authorization": f"{kind} {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer é", f"Basic {TOKEN}", TOKEN]
)
def test_nothing_else_does(client, with_token, header):
    assert client.get(URL, headers={"Authorization": header}).status_code == 401


def test_a_wrong_token_is_refused_from_staff_as_well(staff, with_token):
    assert staff.get(URL, headers=bearer("wrong")).status_code == 401
    assert staff.get(URL, headers=bearer(TOKEN)).status_code == 200


@pytest.mark.parametrize("token", ["", "None", "Bearer"])
def test_without_a_token_in_the_settings_none_opens_it(client, token):
    assert client.get(URL, headers=bearer(token)).status_code == 401


def test_tokens_are_compared_in_constant_time(client, with_token, monkeypatch):
    compared = []
    monkeypatch.setattr("tinyjobs.views.access.constant_time_compare", lambda *pair: compared.append(pair) or True)
    assert client.get(URL, headers=bearer("anything")).status_code == 200
    assert compared == [("anything", TOKEN)]


def test_without_middleware_for_users_the_token_is_the_way(client, with_token, settings):
    settings.MIDDLEWARE = []
    assert client.get(URL).status_code == 401
    assert client.get(URL, headers=bearer(TOKEN)).status_code == 200


def test_sessions_out_of_reach_leave_the_token(staff, with_token, monkeypatch):
    def gone(self):
        raise OperationalError("no connection")

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", gone)
    answer = staff.get(URL)
    assert answer.status_code == 503
    assert b"token" in answer.content
    assert staff.get(URL, headers=bearer(TOKEN)).status_code == 200


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_it_is_only_read(staff, method):
    answer = getattr(staff, method)(URL)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_head(staff):
    answer = staff.head(URL)
    assert (answer.status_code, answer.content) == (200, b"")


def test_an_alias_is_named_where_there_are_several(staff, client, settings):
    ours = "tinyjobs.TinyJobsBackend"
    settings.TASKS = {
        "default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
        "one": {"BACKEND": ours, "OPTIONS": {"url": "memory://", "monitoring_token": TOKEN}},
        "two": {"BACKEND": ours, "OPTIONS": {"url": "memory://?name=two", "monitoring_token": TOKEN + "2"}},
    }
    assert staff.get(URL).status_code == 404
    assert b"one, two" in staff.get(URL).content
    assert staff.get(URL + "?backend=one").status_code == 200
    assert staff.get(URL + "?backend=default").status_code == 404
    assert staff.get(URL + "?backend=none").status_code == 404
    client.logout()
    assert client.get(URL + "?backend=one", headers=bearer(TOKEN)).status_code == 200
    # Each has its own token, and to others no alias is known.
    assert client.get(URL + "?backend=two", headers=bearer(TOKEN)).status_code == 401
    assert client.get(URL + "?backend=none", headers=bearer(TOKEN)).status_code == 401


def test_a_store_that_does_not_answer_costs_its_gauges_alone(staff, monkeypatch):
    async def gone():
        raise OperationalError("gone")

    monkeypatch.setattr(backend_of("default").shared.engine_store, "stats", gone)
    answer = staff.get(URL)
    assert answer.status_code == 200
    assert read(answer.content.decode())["tinyjobs_store_up",] == 0


@pytest.mark.django_db(transaction=True)
def test_a_store_that_hangs_is_answered_for_in_time(client, with_token, monkeypatch):
    """Not told how long it takes: the budget is made short, and the store waits until the test is over."""
    over, asked = threading.Event(), threading.Semaphore(0)
    stats = JoinedStore.stats

    async def hang(self):
        asked.release()
        over.wait(PATIENCE)
        return await stats(self)

    monkeypatch.setattr("tinyjobs.taskbackend.checking.BUDGET", 0.2)
    monkeypatch.setattr(JoinedStore, "stats", hang)
    try:
        for _ in range(3):
            answer = client.get(URL, headers=bearer(TOKEN))
            assert answer.status_code == 200
            assert read(answer.content.decode())["tinyjobs_store_up",] == 0
        assert asked.acquire(timeout=PATIENCE)
        assert not asked.acquire(blocking=False), "each scrape began a look of its own"
    finally:
        over.set()


def test_a_database_that_is_out_of_reach_is_no_trouble_with_a_transaction_around_requests(staff, monkeypatch):
    def refuse(*args, **kwargs):
        raise OperationalError("gone")

    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    monkeypatch.setattr("django.db.transaction.Atomic.__enter__", refuse)
    assert staff.get(URL).status_code == 200


@pytest.mark.parametrize(
    "token", ["short", 5, "with a space in it", "täglich-ein-anderes-wort", b"bytes-of-some-length", ""]
)
def test_a_token_that_would_not_do_is_a_check_error_without_the_token(settings, token):
    from django.core.checks import run_checks

    options = {"monitoring_token": token}
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}
    (found,) = [entry for entry in run_checks() if entry.id == "tinyjobs.E003"]
    assert "TASKS['default']['OPTIONS']['monitoring_token']" in found.msg
    assert not token or str(token) not in found.msg


def test_the_token_is_not_shown_with_the_settings(with_token):
    assert TOKEN not in repr(backend_of("default").shared)
