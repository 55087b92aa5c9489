"""What a page costs: a fixed number of statements, none of which walks through the jobs."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.dashboard.conftest import store
from tests.taskbackend.shop import tasks
from tinyjobs.core.inline import finish
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.models import Schedule, Worker
from tinyjobs.testing import drain

pytestmark = pytest.mark.django_db

PAGES = (
    "",
    "job/",
    "job/?status=failed",
    "job/?status=success",
    "job/?queue=default",
    "job/?task=tests.taskbackend.shop.tasks.add",
    "job/?status=failed&queue=default",
    "schedule/",
    "queues/",
    "workers/",
)
#: The most statements about jobs that any of them makes; searches read each job they found once more.
MOST = 15


def fill(jobs):
    for place in range(jobs):
        tasks.add.enqueue(place)
    for _ in range(3):
        tasks.fail.enqueue()
    drain()
    tasks.add.enqueue(1)
    for place in range(min(jobs, 40)):
        seen = WorkerSeen(worker_id=f"w-{place}", host="h", pid=1, version="1", started_at=store().clock.now())
        finish(store().beat(seen))


def statements(client, page):
    client.get("/admin/tinyjobs/")  # what is asked once a process
    with CaptureQueriesContext(
        connection,
    ) as captured:
        answer = client.get(f"/admin/tinyjobs/{page}")
    assert answer.status_code == 200
    return [query["sql"] for query in captured if "tinyjobs_" in query["sql"]]


def test_pages_ask_the_same_however_much_there_is(admin):
    fill(2)
    few = {page: len(statements(admin, page)) for page in PAGES}
    fill(60)
    many = {page: len(statements(admin, page)) for page in PAGES}
    assert many == few
    assert max(many.values()) <= MOST
    one = f"job/{tasks.add.enqueue(1).id}/"
    assert len(statements(admin, one)) <= MOST


def test_a_search_reads_each_job_it_shows_once_more(admin):
    for place in range(60):
        tasks.noop.enqueue(f"findme {place}")
    assert len(statements(admin, "job/?q=findme")) <= 2 + 50


@pytest.mark.sqlite
def test_no_page_walks_through_the_jobs(admin):
    fill(200)
    walks = {}
    for page in PAGES:
        for sql in statements(admin, page):
            if not sql.lstrip().upper().startswith(("SELECT", "WITH")):
                continue
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN QUERY PLAN " + re.sub("%", "%%", sql))
                plan = [row[3] for row in cursor.fetchall()]
            bad = [line for line in plan if re.match(r"SCAN (tinyjobs_jobs|j|jobs)\b(?!.*INDEX)", line)]
            if bad:
                walks[page] = (sql, bad)
    assert not walks


def test_very_many_workers_and_schedules_are_shown_a_page_at_a_time(admin):
    now = store().clock.now()
    names = [f"n-{place:04}" for place in range(1_000)]
    given = {"cron": "0 3 * * *", "timezone": "UTC", "next_run_at": 4e9, "task": tasks.noop.module_path}
    Schedule.objects.bulk_create(Schedule(name=name, source="data", **given) for name in names)
    seen = {"host": "h", "pid": 1, "version": "1", "started_at": now, "seen_at": now}
    Worker.objects.bulk_create(Worker(worker_id=name, **seen) for name in names)
    page = admin.get("/admin/tinyjobs/api/overview/").json()
    assert (len(page["workers"]), page["more_workers"]) == (20, 980)
    assert len(admin.get("/admin/tinyjobs/api/workers/?page=2").json()["workers"]) == 100
    assert len(admin.get("/admin/tinyjobs/api/schedules/?page=20").json()["schedules"]) == 50
    for page in ("", "workers/", "schedule/", "schedule/add/"):
        assert len(admin.get(f"/admin/tinyjobs/{page}").content) < 150_000
