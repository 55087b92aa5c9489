"""The admin's log: an entry leads to the store it is about; what was done is told also where none can be written."""

import random
import sqlite3
from contextlib import contextmanager
from html import unescape

import pytest
from django.contrib.admin import AdminSite
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.db import DatabaseError, OperationalError, connection, transaction
from django.tasks import task_backends

from tests.dashboard.conftest import act, act_on_schedule, messages_of, store, stored, text_of
from tests.taskbackend.shop import tasks
from tinyjobs.admin import DashboardAdmin, JobAdmin
from tinyjobs.models import Job

pytestmark = pytest.mark.django_db

ADD = "tests.taskbackend.shop.tasks.add"
FORM = {"name": "nightly", "task": ADD, "cron": "@hourly", "args": "[1]", "misfire": "skip"}
NOT_NOTED = "The log of the admin could not be written, so this is not in it; the log of the program has more."


# --- which store an entry is about ----------------------------------------------------------------------------------


@pytest.fixture
def other(settings, tmp_path):
    """The second of two aliases."""
    ours = "tinyjobs.TinyJobsBackend"
    options = {"url": f"sqlite:///{tmp_path}/jobs.db", "enqueue_on_commit": False}
    settings.TASKS = {"default": {"BACKEND": ours}, "files & more": {"BACKEND": ours, "OPTIONS": options}}
    return "files & more"


def recent(client):
    """Where the recent actions of the admin's first page lead, newest first."""
    text = text_of(client, "/admin/")
    parts = text[text.index("recent-actions-module") :].split('href="')[1:]
    return [unescape(part.split('"')[0]) for part in parts if part.startswith("/admin/tinyjobs/")]


def test_an_entry_leads_to_the_store_of_its_job(admin, other):
    here, there = tasks.add.enqueue(1).id, tasks.add.using(backend=other).enqueue(2).id
    act(admin, "cancel", here)
    act(admin, "cancel", there, backend=other)
    to_there, to_here = recent(admin)
    answer = admin.get(to_there, follow=True)
    assert answer.status_code == 200
    assert answer.redirect_chain == [(f"/admin/tinyjobs/job/{there}/?backend=files+%26+more", 302)]
    assert admin.get(to_here).context["page"]["id"] == here
    assert there in LogEntry.objects.first().object_repr and other in LogEntry.objects.first().object_repr


def test_entries_of_a_schedule_of_the_same_name_in_both(admin, other):
    for alias in ("default", other):
        task_backends[alias].save_schedule("nightly", task=ADD, cron="@daily", args=[1])
        act_on_schedule(admin, "pause", "nightly", backend=alias)
    admin.post("/admin/tinyjobs/schedule/nightly/edit/?backend=files+%26+more", {**FORM, "backend": other})
    told = [admin.get(link, follow=True).context["backend"] for link in recent(admin)]
    assert told == [other, other, "default"]


def test_an_entry_of_before_leads_where_it_led(admin, other):
    job_id = tasks.add.enqueue(1).id
    LogEntry.objects.log_actions(User.objects.get().pk, [Job(id=job_id)], CHANGE, "cancelled")
    (link,) = recent(admin)
    assert link == f"/admin/tinyjobs/job/{job_id}/" and admin.get(link).context["page"]["id"] == job_id


def test_an_alias_that_is_gone(admin, other, settings):
    act(admin, "cancel", tasks.add.using(backend=other).enqueue(2).id, backend=other)
    (link,) = recent(admin)
    settings.TASKS = {"default": settings.TASKS["default"]}
    assert admin.get(link).status_code == 404


def test_an_alias_that_is_the_only_one_and_is_joined_by_another(admin, other, settings):
    both = settings.TASKS
    settings.TASKS = {"default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}, other: both[other]}
    job_id = tasks.add.using(backend=other).enqueue(2).id
    act(admin, "cancel", job_id)
    (link,) = recent(admin)
    assert admin.get(link, follow=True).redirect_chain == [(f"/admin/tinyjobs/job/{job_id}/", 302)]
    settings.TASKS = both
    assert admin.get(link, follow=True).context["page"]["id"] == job_id


def test_nobody_is_led_who_may_not_see_it(staff, admin, other):
    act(admin, "cancel", tasks.add.using(backend=other).enqueue(2).id, backend=other)
    (link,) = recent(admin)
    assert staff("view_schedule").get(link).status_code == 403


# --- where it cannot be written -------------------------------------------------------------------------------------


@contextmanager
def locked():
    """Somebody else holds the lock of the project's own file."""
    with lock_of_another() as take:
        take()
        yield


@contextmanager
def lock_of_another():
    """Call what it gives, and somebody else holds the lock of the project's own file from then on."""
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    try:
        yield lambda: other.execute("BEGIN IMMEDIATE")
    finally:
        if other.in_transaction:
            other.execute("ROLLBACK")
        other.close()


@pytest.fixture
def impatient(admin, monkeypatch):
    """A lock of the project's own file is not waited for long."""
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {**connection.settings_dict["OPTIONS"], "timeout": 0.1})
    connection.close()
    yield
    connection.close()


@pytest.fixture
def apart(settings, tmp_path):
    """Jobs are in a file of their own."""
    options = {"url": f"sqlite:///{tmp_path}/jobs.db", "enqueue_on_commit": False}
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}


on_a_file = [pytest.mark.sqlite, pytest.mark.django_db(transaction=True)]


class TestLockedFile:
    pytestmark = on_a_file

    def test_jobs_that_are_elsewhere(self, admin, apart, impatient, caplog):
        ids = [tasks.add.enqueue(number).id for number in range(2)]
        with locked():
            answer = act(admin, "cancel", *ids)
        assert (answer.status_code, answer.redirect_chain) == (200, [])
        assert messages_of(answer) == [f"2 jobs: cancelled ({', '.join(ids)})", NOT_NOTED]
        assert all(text in answer.content.decode() for text in (*ids, "could not be written"))
        assert {stored(job_id).status for job_id in ids} == {"cancelled"}
        assert not LogEntry.objects.exists()
        (record,) = [record for record in caplog.records if record.exc_info]
        assert ids[1] in record.getMessage() and "locked" in str(record.exc_info[1])

    def test_between_two_jobs_that_are_in_it(self, admin, impatient, monkeypatch):
        """The first is done, the second is not, nor is the entry about the first: all of it is told."""
        ids = [tasks.add.enqueue(number).id for number in range(3)]
        cancel = type(store()).cancel

        async def then_locked(self, job_id):
            done = await cancel(self, job_id)
            take()
            return done

        with lock_of_another() as take:
            monkeypatch.setattr(type(store()), "cancel", then_locked)
            answer = act(admin, "cancel", *ids)
            monkeypatch.setattr(type(store()), "cancel", cancel)
        done, noted, busy, untried = messages_of(answer)
        assert answer.status_code == 200
        assert (done, noted) == (f"1 job: cancelled ({ids[0]})", NOT_NOTED)
        assert ids[1] in busy and "locked" in busy and ids[2] in untried
        assert [stored(job_id).status for job_id in ids] == ["cancelled", "queued", "queued"]

    def test_more_than_fits_into_a_cookie(self, admin, impatient):
        """Messages for a later page would go into the session, which is in the same file."""
        draw = random.Random(7)  # what repeats itself would be written short there
        ids = [f"01a22a3a-6ab1-76b2-{draw.randrange(2**16):04x}-{draw.randrange(2**48):012x}" for _ in range(200)]
        with locked():
            answer = act(admin, "cancel", *ids)
        assert answer.status_code == 200
        busy, untried = messages_of(answer)
        assert ids[0] in busy and "199 jobs" in untried and ids[-1] in untried
        assert text_of(admin, "/admin/tinyjobs/job/").count(ids[-1]) == 0  # it was told, and is not told again

    def test_a_session_that_is_saved_with_every_request(self, admin, apart, impatient, settings):
        """It cannot be, and what was done is told nevertheless."""
        settings.SESSION_SAVE_EVERY_REQUEST = True
        job_id = tasks.add.enqueue(1).id
        with locked():
            answer = act(admin, "cancel", job_id)
        assert messages_of(answer) == [f"1 job: cancelled ({job_id})", NOT_NOTED]
        assert answer.status_code == 503 and stored(job_id).status == "cancelled"

    def test_schedules_that_are_elsewhere(self, admin, apart, impatient):
        with locked():
            answer = admin.post("/admin/tinyjobs/schedule/add/", FORM, follow=True)
            assert (answer.status_code, messages_of(answer)) == (200, ["Schedule nightly: added", NOT_NOTED])
            answer = act_on_schedule(admin, "pause", "nightly")
            assert (answer.status_code, messages_of(answer)) == (200, ["Schedule nightly: paused", NOT_NOTED])
        (state,) = task_backends["default"].schedules()
        assert state.is_paused and not LogEntry.objects.exists()

    def test_where_not_even_the_frame_of_a_page_can_be_made(self, admin, apart, impatient, monkeypatch):
        job_id = tasks.add.enqueue(1).id

        def refuse(self, request):
            raise OperationalError("could not connect to 10.0.0.7")

        monkeypatch.setattr(AdminSite, "each_context", refuse)
        with locked():
            answer = admin.post("/admin/tinyjobs/job/act/", _cancel(job_id))
        assert (answer.status_code, answer["Content-Type"]) == (200, "text/plain; charset=utf-8")
        assert answer.content.decode() == f"1 job: cancelled ({job_id})\n{NOT_NOTED}\n"
        assert stored(job_id).status == "cancelled"


def _cancel(job_id):
    return {"action": "cancel", "_selected_action": job_id, "confirmed": "yes"}


@pytest.fixture
def atomic_requests(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)


@pytest.mark.django_db(transaction=True)
def test_inside_the_requests_transaction_what_was_done_stays(admin, atomic_requests, monkeypatch):
    """An error of the database in between would end the transaction on Postgres, and with it the change."""
    job_id = tasks.add.enqueue(1).id

    def refuse(self, *given, **named):
        with connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column")

    monkeypatch.setattr(type(LogEntry.objects), "log_actions", refuse)
    answer = act(admin, "cancel", job_id)
    assert messages_of(answer) == [f"1 job: cancelled ({job_id})", NOT_NOTED]
    assert stored(job_id).status == "cancelled"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("about", ["job", "schedule"])
def test_where_the_requests_transaction_is_lost_nothing_is_said_to_be_done(admin, atomic_requests, monkeypatch, about):
    job_id = tasks.add.enqueue(1).id
    task_backends["default"].save_schedule("nightly", task=ADD, cron="@daily", args=[1])

    def spoil(self, *given, **named):
        with transaction.atomic(savepoint=False):
            raise DatabaseError("the disk is full")

    monkeypatch.setattr(DashboardAdmin, "log_acts", spoil)
    answer = act(admin, "cancel", job_id) if about == "job" else act_on_schedule(admin, "pause", "nightly")
    assert answer.status_code == 503 and "nothing was changed" in answer.content.decode()
    assert stored(job_id).status == "queued"
    assert not task_backends["default"].schedules()[0].is_paused


def test_a_projects_own_way_to_log_that_fails(admin, monkeypatch):
    job_id = tasks.add.enqueue(1).id

    def refuse(self, *given, **named):
        raise ConnectionError("no audit server")

    monkeypatch.setattr(JobAdmin, "log_acts", refuse, raising=False)
    assert messages_of(act(admin, "cancel", job_id)) == [f"1 job: cancelled ({job_id})", NOT_NOTED]
    assert stored(job_id).status == "cancelled"
