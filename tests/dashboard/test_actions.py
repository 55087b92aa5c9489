"""What the pages do to jobs, to one and to many at once: each has an outcome and an entry in the log; by POST alone."""

import sqlite3

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.db import connection
from django.test import Client
from django.urls import reverse

from tests.dashboard.conftest import act, client_of, messages_of, store, stored
from tests.taskbackend.shop import tasks
from tinyjobs.core.errors import DataRefusedError, StoreBusyError, StoreUnavailableError
from tinyjobs.testing import drain

pytestmark = pytest.mark.django_db


def failed_job():
    job_id = tasks.fail.enqueue().id
    drain()
    assert stored(job_id).status == "failed"
    return job_id


def test_retry(admin):
    job_id = failed_job()
    assert messages_of(act(admin, "retry", job_id)) == [f"1 job: queued again ({job_id})"]
    assert (stored(job_id).status, stored(job_id).attempts) == ("queued", 0)


def test_cancel(admin):
    job_id = tasks.add.enqueue(1).id
    assert messages_of(act(admin, "cancel", job_id)) == [f"1 job: cancelled ({job_id})"]
    assert stored(job_id).status == "cancelled"


def test_delete(admin):
    job_id = failed_job()
    answer = act(admin, "delete", job_id, back="job")
    assert messages_of(answer) == [f"1 job: deleted ({job_id})"]
    assert answer.redirect_chain == [("/admin/tinyjobs/job/", 302)]
    assert stored(job_id) is None


def test_an_action_asks_first_and_names_the_count(admin):
    ids = [tasks.add.enqueue(number).id for number in range(3)]
    answer = act(admin, "cancel", *ids, confirmed="")
    text = answer.content.decode()
    assert answer.status_code == 200 and answer.redirect_chain == []
    assert "<strong>3 jobs</strong>" in text and "Cancel these jobs?" in text
    assert all(f'name="_selected_action" value="{job_id}"' in text for job_id in ids)
    assert {stored(job_id).status for job_id in ids} == {"queued"}
    assert not LogEntry.objects.exists()


def test_many_have_an_outcome_each(admin):
    failed, queued, gone = failed_job(), tasks.add.enqueue(1).id, "01a22a3a-6ab1-76b2-a3eb-a0b989b3978d"
    assert messages_of(act(admin, "retry", failed, queued, gone)) == [
        f"1 job: queued again ({failed})",
        f"1 job: only failed and cancelled jobs can be queued again ({queued})",
        f"1 job: there is no such job ({gone})",
    ]
    assert [entry.object_id for entry in LogEntry.objects.all()] == [failed]


def test_why_a_job_was_left_as_it_is(admin):
    done, queued = tasks.noop.using(key="k").enqueue().id, tasks.add.enqueue(1).id
    assert act(admin, "cancel", done).status_code == 200
    assert stored(done).status == "cancelled"
    tasks.noop.using(key="k").enqueue()
    assert messages_of(act(admin, "retry", done)) == [f"1 job: another job holds its key ({done})"]
    assert messages_of(act(admin, "cancel", done)) == [f"1 job: it has ended already ({done})"]
    assert "only jobs that have ended" in messages_of(act(admin, "delete", queued))[0]


def test_the_list_comes_back_with_its_filters(admin):
    job_id = failed_job()
    answer = act(admin, "retry", job_id, filters="status=failed&queue=a%26b&evil=1&cursor=")
    assert answer.redirect_chain == [("/admin/tinyjobs/job/?status=failed&queue=a%26b", 302)]


def test_more_filters_than_django_reads(admin):
    job_id = failed_job()
    answer = act(admin, "retry", job_id, filters="&" * 1_999)
    assert messages_of(answer) == [f"1 job: queued again ({job_id})"]


def test_a_jobs_own_page_comes_back(admin):
    job_id = failed_job()
    answer = act(admin, "retry", job_id, back="job")
    assert answer.redirect_chain == [(f"/admin/tinyjobs/job/{job_id}/", 302)]


def test_who_did_what_is_logged(admin):
    first, second = failed_job(), failed_job()
    act(admin, "retry", first, second)
    act(admin, "cancel", first)
    act(admin, "delete", first)
    told = [(entry.object_id, entry.action_flag, entry.change_message) for entry in LogEntry.objects.order_by("id")]
    assert told[-2:] == [(first, CHANGE, "cancelled"), (first, DELETION, "deleted")]
    assert sorted(told[:2]) == sorted((job_id, CHANGE, "queued again") for job_id in (first, second))
    entry = LogEntry.objects.get(object_id=second)
    assert entry.user.username == "root"
    assert entry.get_admin_url() == f"/admin/tinyjobs/job/{second}/"
    assert admin.get("/admin/").status_code == 200  # which lists them


@pytest.mark.parametrize("method", ["get", "head", "put", "delete", "patch"])
@pytest.mark.parametrize("place", ["job", "schedule"])
def test_nothing_but_post_acts(admin, method, place):
    job_id = failed_job()
    url = f"/admin/tinyjobs/{place}/act/?action=retry&_selected_action={job_id}&confirmed=yes&name=x"
    answer = getattr(admin, method)(url)
    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert stored(job_id).status == "failed"


@pytest.mark.parametrize("page", ["", "job/", "schedule/", "queues/", "workers/", "api/jobs/", "api/overview/"])
def test_pages_take_no_post(admin, page, monkeypatch):
    monkeypatch.setattr("tinyjobs.dashboard.site.Dashboard.desk_for", None)  # the store is not even asked
    answer = admin.post(f"/admin/tinyjobs/{page}")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")


def test_a_form_without_the_token_is_refused(admin):
    job_id = failed_job()
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = admin.cookies
    for place, given in {
        "job": {"action": "retry", "_selected_action": job_id, "confirmed": "yes"},
        "schedule": {"action": "run", "name": "x"},
    }.items():
        assert strict.post(f"/admin/tinyjobs/{place}/act/", given).status_code == 403
    assert strict.post("/admin/tinyjobs/schedule/add/", {"name": "x"}).status_code == 403
    assert stored(job_id).status == "failed"


def test_nobody_chosen(admin):
    assert messages_of(act(admin, "retry")) == ["No job was chosen."]
    assert messages_of(act(admin, "retry", "nonsense", "' OR 1=1", "\x00")) == ["No job was chosen."]


def test_too_many_at_once(admin):
    ids = [f"01a22a3a-6ab1-76b2-a3eb-{number:012x}" for number in range(201)]
    assert "201 jobs are too many at once" in messages_of(act(admin, "cancel", *ids))[0]
    assert len(messages_of(act(admin, "cancel", *ids[:200]))) == 1


def test_a_job_chosen_twice_is_one(admin):
    job_id = failed_job()
    assert messages_of(act(admin, "retry", job_id, job_id)) == [f"1 job: queued again ({job_id})"]


@pytest.mark.parametrize("action", ["", "explode", "RETRY", "delete_selected"])
def test_no_such_action(admin, action):
    assert act(admin, action, failed_job()).status_code == 404


def test_one_that_fails_leaves_the_others_their_outcome(admin, monkeypatch):
    first, second, third = failed_job(), failed_job(), failed_job()
    requeue = type(store()).requeue

    async def unlucky(self, job_id):
        if job_id == second:
            raise DataRefusedError("it is too long")
        return await requeue(self, job_id)

    monkeypatch.setattr(type(store()), "requeue", unlucky)
    assert messages_of(act(admin, "retry", first, second, third)) == [
        f"2 jobs: queued again ({first}, {third})",
        f'1 job: The store refuses these values. <q lang="en">it is too long</q> ({second})',
    ]


def test_a_store_that_goes_away_between_is_told(admin, monkeypatch):
    first, second, third = failed_job(), failed_job(), failed_job()
    requeue = type(store()).requeue

    async def gone(self, job_id):
        if job_id != first:
            raise StoreUnavailableError("gone")
        return await requeue(self, job_id)

    monkeypatch.setattr(type(store()), "requeue", gone)
    assert messages_of(act(admin, "retry", first, second, third)) == [
        f"1 job: queued again ({first})",
        f'1 job: The store cannot be reached, or takes no writes. <q lang="en">gone</q> ({second})',
        f"1 job: not tried, since the store does not answer ({third})",
    ]
    assert [entry.object_id for entry in LogEntry.objects.all()] == [first]


def test_the_pages_have_addresses_by_name(admin):
    assert reverse("admin:tinyjobs_job_changelist") == "/admin/tinyjobs/job/"
    assert reverse("admin:tinyjobs_overview") == reverse("admin:app_list", args=["tinyjobs"]) == "/admin/tinyjobs/"
    assert reverse("admin:tinyjobs_schedule_change", args=["a_2Fb"]) == "/admin/tinyjobs/schedule/a_2Fb/change/"


def test_an_action_on_several_requests_at_once_is_one_outcome(admin, admin_user):
    job_id = failed_job()
    other = client_of(admin_user)
    assert messages_of(act(admin, "retry", job_id)) == [f"1 job: queued again ({job_id})"]
    assert "only failed and cancelled" in messages_of(act(other, "retry", job_id))[0]


def test_a_statement_that_fails_leaves_the_others_their_outcome(admin, monkeypatch):
    """Also inside a transaction of the request's, which on Postgres an error would have ended."""
    first, second, third = failed_job(), failed_job(), failed_job()
    requeue = type(store()).requeue

    async def unlucky(self, job_id):
        if job_id == second:
            with connection.cursor() as cursor:
                cursor.execute("SELECT no_such_column")
        return await requeue(self, job_id)

    monkeypatch.setattr(type(store()), "requeue", unlucky)
    told = messages_of(act(admin, "retry", first, second, third))
    assert told[0] == f"2 jobs: queued again ({first}, {third})"
    assert second in told[1] and "no_such_column" not in told[1]
    assert {entry.object_id for entry in LogEntry.objects.all()} == {first, third}


def test_a_store_that_somebody_locks_is_waited_for_once(admin, monkeypatch):
    ids = [failed_job() for _ in range(3)]
    requeue, tried = type(store()).requeue, []

    async def locked(self, job_id):
        tried.append(job_id)
        if job_id != ids[0]:
            raise StoreBusyError("it is locked")
        return await requeue(self, job_id)

    monkeypatch.setattr(type(store()), "requeue", locked)
    told = messages_of(act(admin, "retry", *ids))
    assert tried == ids[:2]
    assert told == [
        f"1 job: queued again ({ids[0]})",
        f'1 job: The store is busy: somebody else holds what is needed. <q lang="en">it is locked</q> ({ids[1]})',
        f"1 job: not tried, since the store is busy ({ids[2]})",
    ]


def test_a_file_that_is_locked_is_waited_for_once(admin, settings, tmp_path):
    where = f"sqlite:///{tmp_path}/jobs.db"
    options = {"url": where, "enqueue_on_commit": False, "busy_timeout": 0.1}
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}
    ids = [tasks.add.enqueue(number).id for number in range(3)]
    with sqlite3.connect(f"{tmp_path}/jobs.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        told = messages_of(act(admin, "cancel", *ids))
        other.execute("ROLLBACK")
    assert "locked" in told[0] and ids[0] in told[0]
    assert told[1:] == [f"2 jobs: not tried, since the store is busy ({ids[1]}, {ids[2]})"]


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_the_projects_own_file_that_is_locked_is_waited_for_once(admin, monkeypatch):
    ids = [tasks.add.enqueue(number).id for number in range(3)]
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {**connection.settings_dict["OPTIONS"], "timeout": 0.1})
    connection.close()
    with sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        told = messages_of(act(admin, "cancel", *ids))
        other.execute("ROLLBACK")
    connection.close()
    assert ids[0] in told[0] and "locked" in told[0]
    assert told[1:] == [f"2 jobs: not tried, since the store is busy ({ids[1]}, {ids[2]})"]
