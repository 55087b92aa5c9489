"""Text that tries to be markup stays text, wherever a page shows what somebody else wrote."""

import json
from html import unescape

import pytest
from django.tasks import task_backends

from tests.dashboard.conftest import act, store, text_of
from tests.taskbackend.shop import tasks
from tinyjobs.core.errors import ConfigurationError, DataRefusedError, StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.models import Execution, Job, Schedule
from tinyjobs.testing import drain

pytestmark = pytest.mark.django_db

EVIL = "</script><script>alert(1)</script>\"'<img src=x onerror=alert(1)>&lt;`${1}{{ 7|add:7 }}"
# Whatever becomes of it, none of this may stand in a page as it is.
MARKUP = ("<script>alert", "<img src=x", "\"'<img", 'onerror=alert(1)>&lt;`"', "14`")
PAGES = ("", "job/", "schedule/", "queues/", "workers/", "schedule/evil/change/", "schedule/evil/edit/")


def is_harmless(text):
    return not any(mark in text for mark in MARKUP)


@pytest.fixture
def job_id():
    """A job, a schedule and a worker that have it in every text."""
    made = tasks.fail.enqueue(EVIL).id
    drain()
    Execution.objects.filter(job_id=made).update(error_type=EVIL, traceback=EVIL, worker_id=EVIL)
    changed = {"dedup_key": EVIL, "worker_id": EVIL, "last_error": EVIL, "runs_after": EVIL[:36]}
    payload = json.dumps([[EVIL, {EVIL: [EVIL]}], {EVIL: EVIL}]).encode()
    result = json.dumps({EVIL: EVIL}).encode()
    Job.objects.filter(pk=made).update(task=EVIL, queue=EVIL, payload=payload, result=result, **changed)
    task_backends["default"].save_schedule("evil", task="tests.taskbackend.shop.tasks.noop", cron="@daily")
    Schedule.objects.update(
        task=EVIL,
        cron=EVIL,
        timezone=EVIL,
        queue=EVIL,
        misfire=EVIL[:16],
        error=EVIL,
        payload=payload,
        last_job_id=made,
    )
    seen = {"worker_id": EVIL, "host": EVIL, "version": EVIL, "pid": 1, "queues": (EVIL,)}
    finish(store().beat(WorkerSeen(**seen, started_at=store().clock.now())))
    return made


@pytest.mark.parametrize("page", PAGES)
def test_what_rows_hold(admin, job_id, page):
    text = text_of(admin, f"/admin/tinyjobs/{page}")
    assert is_harmless(text)
    assert page or "alert(1)" in text


def test_what_a_job_holds(admin, job_id):
    text = text_of(admin, f"/admin/tinyjobs/job/{job_id}/")
    assert text.count("alert(1)") > 10
    assert is_harmless(text)


def test_a_schedule_of_that_name(admin):
    task_backends["default"].save_schedule(EVIL, task="tests.taskbackend.shop.tasks.noop", cron="@daily")
    listing = text_of(admin, "/admin/tinyjobs/schedule/")
    links = (unescape(part.split('"')[0]) for part in listing.split('href="')[1:])
    link = next(link for link in links if link.endswith("/change/"))
    for text in (listing, text_of(admin, link), text_of(admin, link.replace("/change/", "/edit/"))):
        assert "alert(1)" in text and is_harmless(text)
    for action, confirmed in (("pause", "yes"), ("delete", "")):
        given = {"action": action, "name": EVIL, "confirmed": confirmed}
        text = admin.post("/admin/tinyjobs/schedule/act/", given, follow=True).content.decode()
        assert "alert(1)" in text and is_harmless(text)


@pytest.mark.parametrize("name", ["q", "queue", "task", "status", "cursor", "page", "all", "backend"])
@pytest.mark.parametrize("page", ["job/", "schedule/", "workers/", ""])
def test_what_an_address_holds(admin, name, page):
    answer = admin.get(f"/admin/tinyjobs/{page}", {name: EVIL})
    assert answer.status_code == (404 if name == "backend" else 200)
    assert is_harmless(answer.content.decode())


def test_what_a_form_holds(admin, job_id):
    text = act(admin, "retry", job_id, confirmed="", filters=EVIL, back=EVIL).content.decode()
    assert "alert(1)" in text and is_harmless(text)
    form = dict.fromkeys(("name", "task", "cron", "args", "kwargs", "queue", "timezone", "misfire"), EVIL)
    text = admin.post("/admin/tinyjobs/schedule/add/", form).content.decode()
    assert "alert(1)" in text and is_harmless(text)


def test_what_an_error_of_the_store_holds(admin, monkeypatch):
    async def fail(self):
        raise StoreUnavailableError(EVIL)

    monkeypatch.setattr(type(store()), "stats", fail)
    text = text_of(admin, "/admin/tinyjobs/", 503)
    assert "alert(1)" in text and is_harmless(text)


@pytest.mark.parametrize("kind", [DataRefusedError, ConfigurationError])
def test_what_an_error_of_an_action_holds(admin, monkeypatch, kind):
    """The message has markup of ours around the words of the store."""
    ids = [tasks.noop.enqueue().id for _ in range(2)]

    async def fail(self, *given, **named):
        raise kind(EVIL)

    for verb in ("cancel", "schedules"):
        monkeypatch.setattr(type(store()), verb, fail)
    text = act(admin, "cancel", *ids).content.decode()
    assert '<q lang="en">&lt;/script&gt;' in text and is_harmless(text)
    given = {"action": "pause", "name": EVIL}
    text = admin.post("/admin/tinyjobs/schedule/act/", given, follow=True).content.decode()
    assert '<q lang="en">&lt;/script&gt;' in text and is_harmless(text)


def test_json_is_no_page(admin, job_id):
    for kind in ("overview", "jobs", f"jobs/{job_id}", "schedules", "schedules/evil", "queues", "workers"):
        answer = admin.get(f"/admin/tinyjobs/api/{kind}/")
        assert answer["Content-Type"] == "application/json"
        assert answer["X-Content-Type-Options"] == "nosniff"
        answer.json()


def test_the_log_of_the_admin(admin, job_id):
    task_backends["default"].save_schedule(EVIL, task="tests.taskbackend.shop.tasks.noop", cron="@daily")
    admin.post("/admin/tinyjobs/schedule/act/", {"action": "pause", "name": EVIL})
    text = text_of(admin, "/admin/")
    assert "alert(1)" in text and is_harmless(text)


NOOP = "tests.taskbackend.shop.tasks.noop"
EDIT = "/admin/tinyjobs/schedule/odd/edit/"
FORM = {"name": "odd", "task": NOOP, "cron": "@hourly", "misfire": "skip"}


def kept(name="odd"):
    """The arguments of a schedule, and when it fires."""
    backend = task_backends["default"]
    (state,) = (state for state in backend.schedules() if state.name == name)
    args, kwargs = backend.shared.codecs.get(state.codec).decode_call(state.payload)
    return list(args), dict(kwargs), state.cron


def fields(client):
    """What the form for an edit has in its fields."""
    form = client.get(EDIT).context["form"]
    return {name: form[name].value() for name in ("args", "kwargs")}


def test_half_of_a_pair_in_a_schedule_is_edited(admin):
    task_backends["default"].save_schedule("odd", task=NOOP, cron="@daily", args=["\ud800"], kwargs={"a": "x\udfff"})
    assert "\\ud800" in text_of(admin, EDIT)
    assert admin.post(EDIT, {**FORM, **fields(admin)}).status_code == 302
    assert kept() == (["\ud800"], {"a": "x\udfff"}, "@hourly")
    assert admin.post(EDIT, {**FORM, "args": '["\\udbff", 1]', "kwargs": "{}"}).status_code == 302
    assert kept() == (["\udbff", 1], {}, "@hourly")


@pytest.mark.parametrize("number", ["NaN", "1e999", "-1e999", "Infinity", "-Infinity", '{"a": [NaN]}'])
def test_numbers_that_json_does_not_have_are_refused(admin, number):
    for given in ({"args": f"[{number}]"}, {"kwargs": f'{{"a": {number}}}'}):
        answer = admin.post("/admin/tinyjobs/schedule/add/", {**FORM, **given})
        assert answer.status_code == 200 and "JSON has no NaN" in answer.content.decode()
    assert task_backends["default"].schedules() == []


def test_such_numbers_survive_an_edit_of_something_else(admin):
    inf = float("inf")
    task_backends["default"].save_schedule("odd", task=NOOP, cron="@daily", args=[inf, 1], kwargs={"a": {"b": -inf}})
    given = {**FORM, **fields(admin)}
    assert admin.post(EDIT, given).status_code == 302
    assert kept() == ([inf, 1], {"a": {"b": -inf}}, "@hourly")
    changed = {"args": given["args"].replace("1", "true"), "kwargs": given["kwargs"].replace("}", ', "c": 2}', 1)}
    assert admin.post(EDIT, {**given, **changed}).status_code == 302
    args, kwargs, _ = kept()
    assert args == [inf, True] and args[1] is True and kwargs == {"a": {"b": -inf, "c": 2}}
    answer = admin.post(EDIT, {**given, "args": '[1, "inf"]'})
    assert answer.status_code == 200 and "inf" in answer.content.decode() and "errorlist" in answer.content.decode()
    assert kept()[0] == [inf, True]
    assert admin.post(EDIT, {**given, "args": "[1]"}).status_code == 302
    assert kept()[0] == [1]
