"""Each page says what the store has: the figures, lists and single things, as HTML and as JSON."""

from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from urllib.parse import urlencode

import pytest
from django.tasks import task_backends
from django.utils import timezone

from tests.dashboard.conftest import store, stored, text_of
from tests.taskbackend.shop import tasks
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.models import Job
from tinyjobs.testing import drain

pytestmark = pytest.mark.django_db

ADD, FAIL, FLAKY = (f"tests.taskbackend.shop.tasks.{name}" for name in ("add", "fail", "flaky"))
PAGES = ("", "job/", "schedule/", "queues/", "workers/")
KINDS = ("overview", "jobs", "schedules", "queues", "workers")


def api(client, kind, **query):
    answer = client.get(f"/admin/tinyjobs/api/{kind}/", query)
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_store_has_every_page(admin, page):
    text = text_of(admin, f"/admin/tinyjobs/{page}")
    assert text.count("<h1>") == 1
    for entry in ("Overview", "Jobs", "Schedules", "Queues", "Workers"):
        assert f">{entry}</a>" in text


@pytest.mark.parametrize("page", PAGES)
def test_head_is_like_get(admin, page):
    assert admin.head(f"/admin/tinyjobs/{page}").status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_never_cached(admin, kind):
    assert "no-store" in admin.get(f"/admin/tinyjobs/api/{kind}/")["Cache-Control"]


def test_the_admins_index_leads_to_jobs_and_schedules(admin):
    text = text_of(admin, "/admin/")
    assert 'href="/admin/tinyjobs/job/"' in text
    assert 'href="/admin/tinyjobs/schedule/"' in text
    assert 'href="/admin/tinyjobs/"' in text
    assert "/admin/tinyjobs/job/add/" not in text


def test_the_overview_has_the_figures(admin):
    tasks.add.enqueue(1)
    tasks.fail.enqueue()
    drain()
    tasks.add.enqueue(2)
    page = api(admin, "overview")
    assert {name: count for name, count in page["by_status"].items() if count} == {
        "queued": 1,
        "success": 1,
        "failed": 1,
    }
    assert page["queues"][0]["depth"] == 1
    assert page["queued_by_task"] == [{"task": ADD, "jobs": 1}]
    assert page["oldest_due"] is not None
    assert page["backend"] == "default"
    assert {"tasks", "unknown_tasks"} <= {finding["name"] for finding in page["findings"]}
    text = text_of(admin, "/admin/tinyjobs/")
    assert ADD in text and "Expired leases" in text


def test_the_charts_have_every_minute_and_a_table(admin):
    tasks.add.enqueue(1)
    tasks.fail.enqueue()
    drain()
    page = api(admin, "overview")
    assert len(page["hour"]) == 60
    assert len(page["day"]) == 96
    assert page["hour"][0]["start"] % 60 == 0
    assert page["hour"][-1]["start"] <= page["now"] < page["hour"][-1]["start"] + 60
    assert sum(span["succeeded"] for span in page["hour"]) == 1
    assert sum(span["unsuccessful"] for span in page["day"]) == 1
    text = text_of(admin, "/admin/tinyjobs/")
    assert text.count("<figure") == 8
    assert text.count('role="img"') == text.count('aria-labelledby="tj-hour-') + text.count('aria-labelledby="tj-day-')
    assert 'class="tj-success"' in text and "<polyline" in text


def test_figures_in_another_language_draw_the_same(admin, settings):
    settings.LANGUAGE_CODE = "de"  # where a decimal point is a comma
    tasks.add.enqueue(1)
    drain()
    text = text_of(admin, "/admin/tinyjobs/")
    drawing = text[text.index('<svg class="tj-drawing"') :]
    assert 'viewBox="0 0 600 120"' in drawing
    assert ",5" not in drawing[: drawing.index("</svg>")].split("points")[0]


def test_workers_that_are_there_and_that_went_silent(admin):
    now = store().clock.now()
    seen = WorkerSeen(worker_id="w-1", host="oak", pid=17, version="1", started_at=now, queues=("mail",), threads=3)
    finish(store().beat(seen))
    # Later by enough for their order to be certain: a store on a server moves these instants by its own clock.
    finish(store().beat(replace(seen, worker_id="w-2", started_at=now + 10, threads=1, coroutines=1)))
    worker, _ = api(admin, "workers")["workers"]
    assert (worker["id"], worker["host"], worker["is_silent"]) == ("w-1", "oak", False)
    for page in ("", "workers/"):
        text = text_of(admin, f"/admin/tinyjobs/{page}")
        assert "w-1" in text and "mail" in text and "at work" in text
        assert "<td>3 threads, 0 coroutines</td>" in text and "<td>1 thread, 1 coroutine</td>" in text


def test_queues_with_what_ended_in_them(admin):
    for number in range(3):
        tasks.add.enqueue(number)
    drain(limit=2)
    page = api(admin, "queues")
    (queue,) = [queue for queue in page["queues"] if queue["name"] == "default"]
    assert queue["depth"] == 1
    assert queue["ended"]["a_minute"] == pytest.approx(2 / 60)
    assert queue["ended"]["mean_wait"] >= 0
    assert "Mean wait" in text_of(admin, "/admin/tinyjobs/queues/")


# --- jobs ---------------------------------------------------------------------------------------------------------


def test_jobs_are_listed_newest_first(admin):
    ids = [tasks.add.enqueue(number).id for number in range(3)]
    assert [job["id"] for job in api(admin, "jobs")["jobs"]] == ids[::-1]
    text = text_of(admin, "/admin/tinyjobs/job/")
    assert [text.index(f'value="{job_id}"') for job_id in ids] == sorted(
        (text.index(f'value="{job_id}"') for job_id in ids), reverse=True
    )


def test_jobs_by_status_queue_and_task(admin):
    added, failed = tasks.add.enqueue(1).id, tasks.fail.enqueue().id
    drain()
    assert [job["id"] for job in api(admin, "jobs", status="failed")["jobs"]] == [failed]
    assert [job["id"] for job in api(admin, "jobs", task=ADD)["jobs"]] == [added]
    assert api(admin, "jobs", queue="nowhere")["jobs"] == []
    assert len(api(admin, "jobs", queue="default")["jobs"]) == 2
    assert api(admin, "jobs", status="failed", task=ADD)["jobs"] == []


def test_pages_go_on_where_the_one_before_ended(admin):
    ids = [result.id for result in tasks.add.enqueue_many([(number,) for number in range(120)])]
    seen, cursor = [], ""
    while cursor is not None:
        page = api(admin, "jobs", cursor=cursor)
        seen += [job["id"] for job in page["jobs"]]
        assert len(page["jobs"]) <= 50
        cursor = page["cursor"]
    assert seen == ids[::-1]
    first = text_of(admin, "/admin/tinyjobs/job/?status=queued")
    assert "Older jobs" in first and "status=queued&amp;cursor=" in first and "Newest jobs" not in first
    link = unescape(first[first.index('rel="next" href="') :].split('"')[3])
    assert "Newest jobs" in text_of(admin, link)


@pytest.mark.parametrize("filters", [{"status": "success"}, {"status": "success", "queue": "default"}])
def test_a_long_row_of_others_in_front_costs_a_page_no_more_than_a_search(admin, monkeypatch, filters):
    ended = [result.id for result in tasks.add.enqueue_many([(number,) for number in range(3)])]
    drain()
    assert api(admin, "jobs", **filters)["scanned"] is None, "all of them are shown"
    tasks.add.enqueue_many([(number,) for number in range(5)])
    monkeypatch.setattr("tinyjobs.dashboard.pages.jobs.SCANNED", 4)
    first = api(admin, "jobs", **filters)
    assert (first["jobs"], first["scanned"]) == ([], 4)
    page = text_of(admin, f"/admin/tinyjobs/job/?{urlencode(filters)}")
    assert "4 jobs at most" in page and "Look at older jobs" in page
    second = api(admin, "jobs", cursor=first["cursor"], **filters)
    assert [job["id"] for job in second["jobs"]] == ended[::-1]


@pytest.mark.parametrize("typed", ["findme", "FINDME", '["findme'])
def test_a_search_looks_at_arguments_and_says_how_far(admin, typed):
    found = tasks.noop.enqueue("findme 100%", x={"y": 5}).id
    tasks.add.enqueue(1)
    page = api(admin, "jobs", q=typed)
    assert [job["id"] for job in page["jobs"]] == [found]
    assert page["scanned"] == 10_000
    assert "10000 jobs at most" in text_of(admin, f"/admin/tinyjobs/job/?q={typed}").replace(",", "")


def test_a_search_by_task_and_by_id(admin):
    added, other = tasks.add.enqueue(1).id, tasks.noop.enqueue().id
    assert [job["id"] for job in api(admin, "jobs", q="tasks.add")["jobs"]] == [added]
    assert [job["id"] for job in api(admin, "jobs", q=other[:23] + other[23:])["jobs"]] == [other]
    assert [job["id"] for job in api(admin, "jobs", q=f" {other.upper()} ")["jobs"]] == [other]
    assert [job["id"] for job in api(admin, "jobs", q=other, status="failed")["jobs"]] == []


def test_an_id_is_found_however_old_it_is(admin, monkeypatch):
    monkeypatch.setattr("tinyjobs.dashboard.pages.jobs.SCANNED", 2)
    oldest = tasks.add.enqueue(1).id
    tasks.add.enqueue_many([(number,) for number in range(5)])
    assert [job["id"] for job in api(admin, "jobs", q=oldest)["jobs"]] == [oldest]
    page = api(admin, "jobs", q=oldest[:30])
    assert oldest not in [job["id"] for job in page["jobs"]]


def test_a_search_goes_on_with_older_jobs(admin, monkeypatch):
    monkeypatch.setattr("tinyjobs.dashboard.pages.jobs.SCANNED", 2)
    oldest = tasks.noop.enqueue("rare").id
    tasks.add.enqueue_many([(number,) for number in range(5)])
    seen, cursor, pages = [], "", 0
    while cursor is not None:
        page = api(admin, "jobs", q="rare", cursor=cursor)
        seen, cursor, pages = seen + page["jobs"], page["cursor"], pages + 1
    assert [job["id"] for job in seen] == [oldest]
    assert pages >= 3


@pytest.mark.parametrize(
    "query",
    ["?status=nonsense", "?cursor=nonsense", "?cursor=%00", "?q=%00", "?queue=%00a", "?task=" + "x" * 5000, "?page=-1"],
)
def test_what_cannot_be_meant_is_no_error(admin, query):
    text_of(admin, f"/admin/tinyjobs/job/{query}")
    text_of(admin, f"/admin/tinyjobs/workers/{query}")


def test_a_search_without_arguments_that_are_text(admin):
    tasks.noop.enqueue("ä" * 10)
    assert len(api(admin, "jobs", q="ä")["jobs"]) in (0, 1)


# --- one job ------------------------------------------------------------------------------------------------------


def test_a_job_with_all_it_has(admin):
    before = tasks.noop.enqueue().id
    job_id = tasks.noop.using(key="receipt:42", priority=7).enqueue(1, "two", three=[3, None]).id
    after = tasks.noop.enqueue().id
    drain()
    page = api(admin, f"jobs/{job_id}")
    assert page["arguments"] == {"args": [1, "two"], "kwargs": {"three": [3, None]}, "error": None, "size": 30}
    assert page["result"] == {"value": None, "error": None, "size": 4}
    assert (page["key"], page["priority"], page["status"]) == ("receipt:42", 7, "success")
    assert (page["newer"], page["older"]) == (after, before)
    assert [execution["status"] for execution in page["executions"]] == ["success"]
    text = text_of(admin, f"/admin/tinyjobs/job/{job_id}/")
    for part in ("receipt:42", "&quot;two&quot;", f"/job/{before}/", f"/job/{after}/"):
        assert part in text


def test_a_failed_job_has_its_traceback_folded(admin):
    job_id = tasks.fail.enqueue("<b>no</b>").id
    drain()
    text = text_of(admin, f"/admin/tinyjobs/job/{job_id}/")
    folded = text[text.index('<details data-tj-key="traceback-1">') :]
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in folded
    assert "builtins.ValueError" in text
    assert "<b>no</b>" not in text


def test_each_attempt_is_on_the_time_line(admin):
    tasks.ran.clear()
    job_id = tasks.flaky.enqueue(2).id
    drain()
    page = api(admin, f"jobs/{job_id}")
    assert [execution["status"] for execution in page["executions"]] == ["failed"]
    assert [bar["status"] for bar in page["timeline"]] == ["failed"]
    assert '<svg class="tj-timeline"' in text_of(admin, f"/admin/tinyjobs/job/{job_id}/")


def test_a_running_job(admin):
    tasks.add.enqueue(1)
    finish(store().claim(ClaimRequest(worker_id="w-9", limit=1, lease=60)))
    (job,) = api(admin, "jobs", status="running")["jobs"]
    page = api(admin, f"jobs/{job['id']}")
    assert (page["worker_id"], page["can_retry"], page["can_cancel"], page["can_delete"]) == ("w-9", False, True, False)
    assert "w-9" in text_of(admin, f"/admin/tinyjobs/job/{job['id']}/")


@pytest.mark.parametrize(
    "job_id",
    ["nonsense", "1", "%00", "..", "%2e%2e", "01a22a3a-6ab1-76b2-a3eb-a0b989b3978d", "' OR 1=1", "é", "x" * 3000],
)
def test_no_such_job(admin, job_id):
    assert admin.get(f"/admin/tinyjobs/job/{job_id}/").status_code in (404, 301, 302)
    assert admin.get(f"/admin/tinyjobs/api/jobs/{job_id}/").status_code in (404, 301, 302)


def test_arguments_that_cannot_be_read_are_told(admin):
    job_id = tasks.add.enqueue(1).id
    spoil(job_id, b"\xff{not json")
    page = api(admin, f"jobs/{job_id}")
    assert page["arguments"]["args"] is None
    assert page["arguments"]["error"]
    text_of(admin, f"/admin/tinyjobs/job/{job_id}/")
    text_of(admin, "/admin/tinyjobs/job/?q=json")


def test_a_pickle_is_not_opened(admin):
    job_id = tasks.add.enqueue(1).id
    spoil(job_id, b"cos\nsystem\n(S'false'\ntR.", codec="pickle")
    assert "pickle" in api(admin, f"jobs/{job_id}")["arguments"]["error"]


def test_a_huge_payload_is_cut_until_somebody_asks(admin):
    job_id = tasks.noop.enqueue("x" * 50_000).id
    url = f"/admin/tinyjobs/job/{job_id}/"
    text = text_of(admin, url)
    assert len(text) < 40_000 and "Show all" in text and "?all=1" in text
    assert len(text_of(admin, f"{url}?all=1")) > 50_000
    larger = tasks.noop.enqueue("x" * 1_100_000).id
    assert "when you ask for everything" in api(admin, f"jobs/{larger}")["arguments"]["error"]
    assert len(api(admin, f"jobs/{larger}", all="1")["arguments"]["args"][0]) == 1_100_000


def test_half_a_character_is_shown(admin):
    job_id = tasks.noop.enqueue("\ud800 and \x00").id
    assert "\\ud800" in text_of(admin, f"/admin/tinyjobs/job/{job_id}/")


def spoil(job_id, payload, codec="json"):
    """Write what somebody may have written into a row."""
    Job.objects.filter(pk=job_id).update(payload=payload, codec=codec)


# --- times --------------------------------------------------------------------------------------------------------


def test_times_are_in_the_active_zone_with_utc_on_hover(admin, settings):
    settings.TIME_ZONE = "Asia/Tokyo"
    job_id = tasks.add.enqueue(1).id
    sent = datetime.fromtimestamp(stored(job_id).created_at, UTC)
    local = sent.astimezone(timezone.get_default_timezone())
    text = text_of(admin, f"/admin/tinyjobs/job/{job_id}/")
    assert local.utcoffset().total_seconds() == 9 * 3600
    assert f'title="{sent:%Y-%m-%d %H:%M:%S} UTC">{local:%Y-%m-%d %H:%M:%S}</time>' in text


def test_times_without_aware_datetimes(admin, settings):
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    job_id = tasks.add.enqueue(1).id
    sent = datetime.fromtimestamp(stored(job_id).created_at, timezone.get_default_timezone())
    assert f">{sent:%Y-%m-%d %H:%M:%S}</time>" in text_of(admin, f"/admin/tinyjobs/job/{job_id}/")


def test_instants_that_no_calendar_has(admin):
    job_id = tasks.add.enqueue(1).id
    Job.objects.filter(pk=job_id).update(run_at=1e300, created_at=-1e18, finished_at=1e18)
    text_of(admin, f"/admin/tinyjobs/job/{job_id}/")
    text_of(admin, "/admin/tinyjobs/job/")


@pytest.mark.parametrize("page", ["", "job/", "job/ID/"])
def test_the_end_of_the_calendar_is_not_reached_further_east(admin, settings, page):
    """`datetime.max` stands for never in many a program."""
    settings.TIME_ZONE = "Asia/Tokyo"
    job_id = tasks.add.enqueue(1).id
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    Job.objects.filter(pk=job_id).update(run_at=last, due_at=last, ready_at=None)
    assert "9999-12-31 23:59:59" in text_of(admin, f"/admin/tinyjobs/{page.replace('ID', job_id)}")


def test_a_refresh_gets_the_main_block_alone(admin):
    tasks.add.enqueue(1)
    answer = admin.get("/admin/tinyjobs/job/", headers={"Tinyjobs-Refresh": "1"})
    text = answer.content.decode()
    assert text.lstrip().startswith('<div id="tj-main">') and "<html" not in text
    assert "Tinyjobs-Refresh" in answer["Vary"]


def test_a_refresh_leaves_messages_for_the_page(admin):
    job_id = tasks.add.enqueue(1).id
    admin.post("/admin/tinyjobs/job/act/", {"action": "cancel", "_selected_action": job_id, "confirmed": "yes"})
    admin.get("/admin/tinyjobs/job/", headers={"Tinyjobs-Refresh": "1"})
    assert "1 job: cancelled" in text_of(admin, "/admin/tinyjobs/job/")


def test_nothing_is_inline_and_nothing_comes_from_elsewhere(admin):
    job_id = tasks.fail.enqueue().id
    task_backends["default"].save_schedule("odd", task=ADD, cron="* * * * *", args=[1])
    drain()
    for page in (*PAGES, f"job/{job_id}/", "schedule/odd/change/", "schedule/odd/edit/"):
        text = text_of(admin, f"/admin/tinyjobs/{page}")
        assert " style=" not in text and "<style" not in text and "onclick" not in text
        assert "<script>" not in text and "javascript:" not in text
        assert 'src="http' not in text and 'href="http' not in text and 'src="//' not in text


def test_a_nonce_where_the_project_makes_them(admin, settings):
    settings.MIDDLEWARE = ["django.middleware.csp.ContentSecurityPolicyMiddleware", *settings.MIDDLEWARE]
    settings.SECURE_CSP = {"script-src": ["<CSP_NONCE_SENTINEL>"]}
    text = text_of(admin, "/admin/tinyjobs/")
    assert 'dashboard.js" defer nonce="' in text
