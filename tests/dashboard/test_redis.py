"""The same pages over Redis, whose jobs are in none of Django's databases."""

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.tasks import task_backends

from tests.dashboard.conftest import act, act_on_schedule, messages_of, store, stored, text_of
from tests.taskbackend.shop import tasks
from tinyjobs.core.inline import finish
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.dashboard.services import desk_of
from tinyjobs.testing import drain

pytestmark = [pytest.mark.redis, pytest.mark.django_db]

NOOP = "tests.taskbackend.shop.tasks.noop"


@pytest.fixture
def on_redis(settings, redis_url):
    options = {"url": redis_url, "enqueue_on_commit": False}
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}


def api(client, kind, **query):
    answer = client.get(f"/admin/tinyjobs/api/{kind}/", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_every_page(admin, on_redis):
    failed, queued = tasks.fail.enqueue("findme").id, tasks.add.enqueue(1).id
    drain(limit=1)
    task_backends["default"].save_schedule("nightly", task=NOOP, cron="@daily", args=[1])
    if store().capabilities.workers_seen:
        seen = WorkerSeen(worker_id="w-1", host="oak", pid=1, version="1", started_at=store().clock.now())
        finish(store().beat(seen))
    for page in (
        "",
        "job/",
        f"job/{failed}/",
        f"job/{queued}/",
        "schedule/",
        "schedule/nightly/change/",
        "queues/",
        "workers/",
    ):
        text_of(admin, f"/admin/tinyjobs/{page}")
    assert [job["id"] for job in api(admin, "jobs")["jobs"]] == [queued, failed]
    assert [job["id"] for job in api(admin, "jobs", status="failed")["jobs"]] == [failed]
    assert api(admin, "overview")["by_status"]["failed"] == 1
    assert "ValueError: findme" in api(admin, f"jobs/{failed}")["executions"][0]["traceback"]
    expected = [failed] if store().capabilities.search else []
    assert [job["id"] for job in api(admin, "jobs", q="findme")["jobs"]] == expected
    assert [job["id"] for job in api(admin, "jobs", q=failed)["jobs"]] == [failed]


def test_actions(admin, on_redis):
    job_id = tasks.fail.enqueue().id
    drain()
    assert messages_of(act(admin, "retry", job_id)) == [f"1 job: queued again ({job_id})"]
    assert messages_of(act(admin, "cancel", job_id)) == [f"1 job: cancelled ({job_id})"]
    if store().capabilities.delete:
        assert messages_of(act(admin, "delete", job_id)) == [f"1 job: deleted ({job_id})"]
        assert stored(job_id) is None
    task_backends["default"].save_schedule("nightly", task=NOOP, cron="@daily")
    for action in ("pause", "resume", "run", "delete"):
        assert messages_of(act_on_schedule(admin, action, "nightly"))[0].startswith("Schedule nightly: ")
    assert {entry.object_id for entry in LogEntry.objects.all()} == {job_id, "nightly"}


def test_no_table_of_ours_is_asked(admin, on_redis, django_assert_num_queries):
    job_id = tasks.add.enqueue(1).id
    asked = []

    def note(execute, sql, params, many, context):
        asked.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        for page in ("", "job/", f"job/{job_id}/", "schedule/", "queues/", "workers/"):
            text_of(admin, f"/admin/tinyjobs/{page}")
        act(admin, "cancel", job_id)
    assert asked and not [sql for sql in asked if "tinyjobs_" in sql.split("WHERE")[0].replace("'", "")]


def test_a_server_that_is_gone(admin, settings):
    options = {"url": "redis://127.0.0.1:1/0", "enqueue_on_commit": False}
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}
    for page in ("", "job/", "api/overview/"):
        assert admin.get(f"/admin/tinyjobs/{page}").status_code == 503
    assert admin.get("/admin/").status_code == 200


def test_it_is_asked_in_a_thread_that_can_be_left(on_redis):
    desk = desk_of("default")
    assert desk.is_networked and desk.database is None
