"""A store that answers late, wrongly or not at all gives 503 in good time, and the admin around it goes on."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.db import OperationalError, connection

from tests.dashboard.conftest import act, store, text_of
from tests.taskbackend.conftest import scratch, scratch_url
from tests.taskbackend.shop import tasks
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.dashboard import deadlines, services
from tinyjobs.dashboard.services import Desk

__all__ = ["scratch", "scratch_url"]  # fixtures

PAGES = ("", "queues/", "api/overview/", "api/queues/")


def work_for_ever():
    """Have the database work on a statement that has no end."""
    endless = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "postgresql": "SELECT pg_sleep(600)",
    }
    with connection.cursor() as cursor:
        cursor.execute(endless[connection.vendor])
        cursor.fetchall()


def stand_still():
    """Have the server's end of the connection stand still, as on a machine that has gone; SQLite has none."""
    server = connection.connection.info.backend_pid if connection.vendor == "postgresql" else 0
    if not is_a_server_here(server):
        return work_for_ever()
    os.kill(server, signal.SIGSTOP)
    try:
        with connection.cursor() as cursor:
            return cursor.execute("SELECT 1")
    finally:
        os.kill(server, signal.SIGCONT)


def is_a_server_here(pid):
    """Whether that is a process of a Postgres on this machine that we may stop: the run's server may be elsewhere."""
    try:
        os.kill(pid, 0)
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture
def failing(monkeypatch):
    """Call it with what `stats` of the store does from then on."""

    def fail(do):
        async def stats(self):
            return do()

        monkeypatch.setattr(type(store()), "stats", stats)

    return fail


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_a_store_that_is_out_of_reach(admin, failing, page):
    def refuse():
        raise StoreUnavailableError("redis://db/0: connection refused")

    failing(refuse)
    answer = admin.get(f"/admin/tinyjobs/{page}")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "connection refused" in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    if page.startswith("api"):
        assert list(answer.json()) == ["error"]
    else:
        assert 'class="tj-menu"' in answer.content.decode()
    assert admin.get("/admin/tinyjobs/job/").status_code == 200


@pytest.mark.django_db
def test_a_refresh_is_told_as_well(admin, failing):
    def refuse():
        raise StoreUnavailableError("gone")

    failing(refuse)
    answer = admin.get("/admin/tinyjobs/", headers={"Tinyjobs-Refresh": "1"})
    assert answer.status_code == 503 and "<html" not in answer.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_a_statement_that_fails_inside_the_requests_transaction(admin, failing, page):
    def ask():
        with connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column")

    failing(ask)
    answer = admin.get(f"/admin/tinyjobs/{page}")
    assert answer.status_code == 503
    assert "no_such_column" not in answer.content.decode()  # it is in the log; it might hold an address
    assert User.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", ["", "api/queues/"])
@pytest.mark.parametrize("way", [work_for_ever, stand_still])
def test_a_database_that_does_not_answer_in_time(admin, failing, monkeypatch, page, way):
    tasks.add.enqueue(1)
    failing(way)
    with monkeypatch.context() as hurry:
        hurry.setattr(deadlines, "BUDGET", 0.3)
        answer = admin.get(f"/admin/tinyjobs/{page}")
    assert answer.status_code == 503
    assert "gave no answer within 0.3 s" in answer.content.decode()
    assert admin.get("/admin/tinyjobs/job/").status_code == 200  # the next one has a connection that works
    if connection.vendor == "postgresql":
        until(lambda: not statements_of_others())
    assert "1 job: cancelled" in act(admin, "cancel", *_ids(admin)).content.decode()


def _ids(client):
    return [job["id"] for job in client.get("/admin/tinyjobs/api/jobs/").json()["jobs"]]


@pytest.mark.django_db(transaction=True)
def test_no_alarm_is_left_after_a_page_in_time(admin):
    assert admin.get("/admin/tinyjobs/").status_code == 200
    # One that was called off ends as soon as it gets to run; one that was not would wait for the whole budget.
    until(lambda: not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)])


@pytest.mark.django_db
def test_a_server_of_its_own_that_hangs(admin, settings, monkeypatch):
    """Asked in threads that are left behind, of which there are only so many."""
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"url": "memory://"}}}
    answered, asked = threading.Event(), []

    async def hang(self):
        asked.append(self)
        answered.wait(600)
        raise StoreUnavailableError("too late")

    usual = services.desk_of

    def networked(alias):
        desk = usual(alias)
        return Desk(alias=alias, target=desk.target, mask=desk.mask, is_networked=True, budget=0.05)

    monkeypatch.setattr(services, "desk_of", networked)
    monkeypatch.setattr(type(store()), "stats", hang)
    before = _threads()
    try:
        for _ in range(deadlines._MOST_LEFT_WAITING + 3):
            assert "gave no answer within" in text_of(admin, "/admin/tinyjobs/queues/", 503)
        until(lambda: len(asked) == deadlines._MOST_LEFT_WAITING)
    finally:
        answered.set()
    until(lambda: _threads() <= before)


def statements_of_others():
    """What the server still works on for connections to this database, but for this one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT query FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'"
        )
        return cursor.fetchall()


def until(condition):
    patience = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < patience
        time.sleep(0.01)


def _threads():
    return sum(1 for thread in threading.enumerate() if thread.name == "tinyjobs-dashboard")


@pytest.mark.django_db
def test_the_admins_own_database_is_gone(admin, monkeypatch):
    def refuse(self, request):
        raise OperationalError("could not connect to 10.0.0.7")

    monkeypatch.setattr(AdminSite, "has_permission", refuse)
    for page in ("", "api/jobs/"):
        answer = admin.get(f"/admin/tinyjobs/{page}")
        assert (answer.status_code, answer["Content-Type"]) == (503, "text/plain; charset=utf-8")
        assert "10.0.0.7" not in answer.content.decode()


@pytest.mark.django_db(databases=["default"])
def test_tables_that_are_not_there(admin, settings, scratch):
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"database": "scratch"}}}
    for page in ("", "job/", "schedule/", "queues/", "workers/"):
        assert admin.get(f"/admin/tinyjobs/{page}").status_code == 503
    assert admin.get("/admin/").status_code == 200


@pytest.mark.django_db
def test_an_action_on_a_store_that_is_gone(admin, monkeypatch):
    job_id = tasks.add.enqueue(1).id

    async def refuse(self, *given, **named):
        raise StoreUnavailableError("gone")

    for verb in ("cancel", "schedules"):
        monkeypatch.setattr(type(store()), verb, refuse)
    assert "gone" in act(admin, "cancel", job_id).content.decode()
    answer = admin.post("/admin/tinyjobs/schedule/act/", {"action": "pause", "name": "x"})
    assert answer.status_code == 503
    assert admin.post("/admin/tinyjobs/schedule/add/", _form()).status_code == 503


def _form():
    return {"name": "n", "task": "tests.taskbackend.shop.tasks.noop", "cron": "@daily", "misfire": "skip"}
