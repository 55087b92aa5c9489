"""Schedules on the pages: what they say of them, and pausing, resuming, running, making, changing and deleting them."""

import json
from dataclasses import replace

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.tasks import task_backends
from django.tasks.signals import task_enqueued

from tests.dashboard.conftest import act_on_schedule, messages_of, store, stored, text_of
from tests.taskbackend.shop import tasks
from tinyjobs.core.inline import finish
from tinyjobs.core.masking import HIDDEN
from tinyjobs.models import Schedule
from tinyjobs.runtime import schedules
from tinyjobs.testing import drain

pytestmark = pytest.mark.django_db

ADD, NOOP = "tests.taskbackend.shop.tasks.add", "tests.taskbackend.shop.tasks.noop"
FORM = {"name": "nightly", "task": ADD, "cron": "30 2 * * 1-5", "args": "[1]", "kwargs": '{"b": 2}', "misfire": "skip"}


def backend():
    return task_backends["default"]


@pytest.fixture
def nightly():
    return backend().save_schedule("nightly", task=ADD, cron="30 2 * * 1-5", args=[1], kwargs={"b": 2}, timezone="UTC")


@pytest.fixture
def declared(settings):
    entry = {"task": ADD, "cron": "0 * * * *", "args": [5]}
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"schedules": {"hourly": entry}}}}
    return "hourly"


def one(client, name):
    answer = client.get(f"/admin/tinyjobs/api/schedules/{name}/")
    assert answer.status_code == 200
    return answer.json()


def test_a_schedule_in_words_with_its_next_firings(admin, nightly):
    page = one(admin, "nightly")
    assert page["words"] == "at 02:30 on Monday to Friday"
    assert page["arguments"]["args"] == [1]
    assert len(page["next"]) == 10 and page["next"] == sorted(page["next"])
    assert page["is_data"] and not page["is_paused"]
    for url in ("/admin/tinyjobs/schedule/", "/admin/tinyjobs/schedule/nightly/change/"):
        text = text_of(admin, url)
        assert "at 02:30 on Monday to Friday" in text and "30 2 * * 1-5" in text


def test_one_that_is_declared_and_not_yet_registered(admin, declared):
    page = one(admin, declared)
    assert not page["is_registered"] and not page["is_data"]
    text = text_of(admin, "/admin/tinyjobs/schedule/")
    assert "No scheduler has run since it was declared." in text
    assert "/edit/" not in text
    assert finish(store().schedules()) == []  # looking registers nothing


def test_what_the_code_declares_is_not_edited(admin, declared):
    assert admin.get(f"/admin/tinyjobs/schedule/{declared}/edit/").status_code == 403
    assert admin.post(f"/admin/tinyjobs/schedule/{declared}/edit/", FORM).status_code == 403
    assert "is declared in the code" in messages_of(act_on_schedule(admin, "delete", declared))[0]
    assert "paused" in messages_of(act_on_schedule(admin, "pause", declared))[0]


def test_pause_and_resume(admin, nightly):
    answer = act_on_schedule(admin, "pause", "nightly", back="schedule")
    assert answer.redirect_chain == [("/admin/tinyjobs/schedule/nightly/change/", 302)]
    assert one(admin, "nightly")["is_paused"]
    assert 'value="resume"' in text_of(admin, "/admin/tinyjobs/schedule/")
    assert messages_of(act_on_schedule(admin, "resume", "nightly")) == ["Schedule nightly: resumed"]
    assert not one(admin, "nightly")["is_paused"]


def test_run_now(admin, nightly):
    heard = []

    def hear(sender, task_result, **kwargs):
        heard.append(task_result.id)

    task_enqueued.connect(hear)
    try:
        (told,) = messages_of(act_on_schedule(admin, "run", "nightly"))
    finally:
        task_enqueued.disconnect(hear)
    job_id = told.rpartition(" ")[2]
    assert stored(job_id).task == ADD
    assert heard == [job_id]
    (again,) = messages_of(act_on_schedule(admin, "run", "nightly"))
    assert again == f"Schedule nightly has a job that has not ended: {job_id}."
    assert LogEntry.objects.filter(object_id="nightly").count() == 1


def test_delete_asks_first(admin, nightly):
    answer = act_on_schedule(admin, "delete", "nightly", confirmed="")
    assert "Delete this schedule?" in answer.content.decode()
    assert backend().schedules()
    assert messages_of(act_on_schedule(admin, "delete", "nightly")) == ["Schedule nightly: deleted"]
    assert not backend().schedules()


@pytest.mark.parametrize("action", ["pause", "resume", "run", "delete"])
def test_no_such_schedule(admin, action):
    assert messages_of(act_on_schedule(admin, action, "nope")) == ["There is no schedule 'nope'."]
    assert admin.get("/admin/tinyjobs/schedule/nope/change/").status_code == 404
    assert admin.get("/admin/tinyjobs/schedule/nope/edit/").status_code == 404


def test_make_one(admin):
    assert 'name="cron"' in text_of(admin, "/admin/tinyjobs/schedule/add/")
    answer = admin.post("/admin/tinyjobs/schedule/add/", FORM, follow=True)
    assert answer.redirect_chain == [("/admin/tinyjobs/schedule/nightly/change/", 302)]
    (state,) = backend().schedules()
    assert (state.name, state.cron, state.source, state.overlap) == ("nightly", "30 2 * * 1-5", "data", False)
    assert one(admin, "nightly")["arguments"]["kwargs"] == {"b": 2}


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"cron": "nonsense"}, "nonsense"),
        ({"cron": ""}, "This field is required"),
        ({"task": "no.such.task"}, "no.such.task"),
        ({"task": "os.system"}, "os.system"),
        ({"args": "[1, 2, 3]"}, "argument"),
        ({"args": "{}"}, "not a list in JSON"),
        ({"kwargs": "[1"}, "not an object in JSON"),
        ({"kwargs": '{"c": 1}'}, "c"),
        ({"queue": "elsewhere"}, "elsewhere"),
        ({"priority": "1000"}, "1000"),
        ({"priority": "high"}, "whole number"),
        ({"timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"misfire": "perhaps"}, "perhaps"),
        ({"misfire": "run_all"}, "overlap"),
        ({"name": "x" * 300}, "255"),
    ],
)
def test_what_cannot_work_is_told_in_the_form(admin, changed, complaint):
    answer = admin.post("/admin/tinyjobs/schedule/add/", {**FORM, **changed})
    assert answer.status_code == 200
    text = answer.content.decode()
    assert "errorlist" in text and complaint in text
    assert backend().schedules() == []


def test_a_name_that_is_taken(admin, nightly):
    answer = admin.post("/admin/tinyjobs/schedule/add/", {**FORM, "cron": "@daily"})
    assert "There is a schedule of that name already." in answer.content.decode()
    assert backend().schedules()[0].cron == "30 2 * * 1-5"


def test_change_one(admin, nightly):
    url = "/admin/tinyjobs/schedule/nightly/edit/"
    text = text_of(admin, url)
    assert "30 2 * * 1-5" in text and "disabled" in text
    changed = {**FORM, "name": "other", "cron": "@daily", "args": "[7]", "priority": "5", "overlap": "on"}
    assert admin.post(url, changed, follow=True).status_code == 200
    (state,) = backend().schedules()
    assert (state.name, state.cron, state.priority, state.overlap) == ("nightly", "@daily", 5, True)
    assert one(admin, "nightly")["arguments"]["args"] == [7]


def test_who_did_what_is_logged(admin):
    admin.post("/admin/tinyjobs/schedule/add/", FORM)
    admin.post("/admin/tinyjobs/schedule/nightly/edit/", FORM)
    act_on_schedule(admin, "pause", "nightly")
    act_on_schedule(admin, "delete", "nightly")
    told = [(entry.object_id, entry.action_flag, entry.change_message) for entry in LogEntry.objects.order_by("id")]
    assert told == [
        ("nightly", ADDITION, "added"),
        ("nightly", CHANGE, "changed"),
        ("nightly", CHANGE, "paused"),
        ("nightly", DELETION, "deleted"),
    ]


@pytest.mark.parametrize(
    "name", ["a/b", ".", "..", "_2E", "with space", "ünïcode", "a_b", "50%", "?x=1", "#", "add", "act", "a:b", "r1"]
)
def test_names_that_addresses_have_a_meaning_for(admin, name):
    backend().save_schedule(name, task=ADD, cron="@daily", args=[1])
    text = text_of(admin, "/admin/tinyjobs/schedule/")
    links = [part.split('"')[0] for part in text.split('href="')[1:]]
    (link,) = {link for link in links if link.endswith("/change/")}
    assert not {".", ".."} & set(link.split("/"))  # which a browser takes for folders
    page = text_of(admin, link)
    (api,) = {part.split('"')[0] for part in page.split('href="')[1:] if "/api/" in part.split('"')[0]}
    assert admin.get(api).json()["name"] == name
    assert admin.get(link.replace("/change/", "/edit/")).status_code == 200
    answer = act_on_schedule(admin, "pause", name, back="schedule")
    assert answer.redirect_chain == [(link, 302)]
    assert messages_of(answer) == [f"Schedule {name}: paused"]


def test_filter_by_name_or_task(admin, nightly):
    backend().save_schedule("weekly", task=NOOP, cron="@weekly")

    def names(text):
        page = admin.get("/admin/tinyjobs/api/schedules/", {"q": text}).json()
        return [entry["name"] for entry in page["schedules"]]

    assert names("") == ["nightly", "weekly"]
    assert names("NIGHT") == ["nightly"]
    assert names("tasks.noop") == ["weekly"]
    assert names("zzz") == []


def test_many_are_on_pages(admin):
    for number in range(60):
        backend().save_schedule(f"s-{number:02}", task=NOOP, cron="@daily")
    first = admin.get("/admin/tinyjobs/api/schedules/").json()
    last = admin.get("/admin/tinyjobs/api/schedules/?page=2").json()
    assert (first["pages"], len(first["schedules"]), len(last["schedules"])) == (2, 50, 10)
    assert 'rel="next"' in text_of(admin, "/admin/tinyjobs/schedule/")


def test_the_latest_runs_are_drawn(admin, nightly):
    job = backend().shared.timetable.draft
    schedule = finish(_read("nightly"))
    made, _ = job(schedule)
    finish(store().enqueue(replace(made, scheduled_for=made.created_at, key="schedule:nightly")))
    drain()
    page = one(admin, "nightly")
    assert [run["status"] for run in page["runs"]] == ["success"]
    backend().save_schedule("other", task=ADD, cron="@daily", args=[1])
    listed, other = admin.get("/admin/tinyjobs/api/schedules/").json()["schedules"]
    assert [run["id"] for run in listed["runs"]] == [page["runs"][0]["id"]]
    assert other["runs"] == [] and one(admin, "other")["runs"] == []
    assert 'aria-label="The latest 1 run: 1 successful, 0 failed"' in text_of(admin, "/admin/tinyjobs/schedule/")
    assert made.id in text_of(admin, "/admin/tinyjobs/schedule/nightly/change/")


def _read(name):
    shared = backend().shared
    return schedules.read(shared.store, shared.timetable, shared.codecs, name)


def test_hidden_arguments_survive_an_edit(admin):
    given = {"password": "hunter22", "note": "https://u:pw@host/", "keep": [1, {"token": "abcdef"}]}
    backend().save_schedule("secret", task=NOOP, cron="@daily", args=[1], kwargs=given)
    url = "/admin/tinyjobs/schedule/secret/edit/"
    text = text_of(admin, url)
    assert "hunter22" not in text and "abcdef" not in text and ":pw@" not in text
    shown = admin.get("/admin/tinyjobs/api/schedules/secret/").json()["arguments"]["kwargs"]
    form = {"task": NOOP, "cron": "@hourly", "args": "[1]", "misfire": "skip"}
    assert admin.post(url, {**form, "kwargs": json.dumps(shown)}).status_code == 302
    assert kwargs_of("secret") == given
    changed = {**shown, "note": "new", "more": 1}
    assert admin.post(url, {**form, "kwargs": json.dumps(changed)}).status_code == 302
    assert kwargs_of("secret") == {**given, "note": "new", "more": 1}
    changed["password"] = "another"
    assert admin.post(url, {**form, "kwargs": json.dumps(changed)}).status_code == 302
    assert kwargs_of("secret")["password"] == "another"


@pytest.mark.parametrize(
    ("task", "changed", "why"),
    [
        ("log_in", {"args": ["new", {"token": HIDDEN}]}, "moved, so the sign itself would be kept"),
        ("log_in", {"args": [HIDDEN, "new"]}, "moved to where another value is, which would be taken for it"),
        ("log_in", {"task": NOOP}, "the parameters of another task hide nothing"),
        ("noop", {"kwargs": {"password": HIDDEN, "note": "https://u:••••••@new/"}}, "the rest of a text is another"),
        ("noop", {"kwargs": {"password": "new", "note": HIDDEN}}, "under a name that hides nothing"),
        ("noop", {"kwargs": {"password": "new", "other": HIDDEN}}, "under a new name"),
    ],
)
def test_the_sign_for_a_hidden_value_is_no_value(admin, task, changed, why):
    """Nor does an edit show what was hidden."""
    kept = {
        "log_in": [[{"token": "abcdef"}, "hunter23"], {}],
        "noop": [[], {"password": "hunter22", "note": "https://u:pw77@host/"}],
    }[task]
    path = f"tests.taskbackend.shop.tasks.{task}"
    backend().save_schedule("secret", task=path, cron="@daily", args=kept[0], kwargs=kept[1])
    shown = one(admin, "secret")["arguments"]
    assert str(shown).count(HIDDEN) == 2 and "hunter" not in str(shown)
    form = {"task": path, "cron": "@hourly", "misfire": "skip", "args": shown["args"], "kwargs": shown["kwargs"]}
    form = {name: value if isinstance(value, str) else json.dumps(value) for name, value in {**form, **changed}.items()}
    answer = admin.post("/admin/tinyjobs/schedule/secret/edit/", form)
    assert answer.status_code == 200, why
    assert "stands for a value that is hidden" in answer.content.decode()
    (state,) = backend().schedules()
    assert (json.loads(state.payload), state.cron) == (kept, "@daily")


def kwargs_of(name):
    (state,) = [state for state in backend().schedules() if state.name == name]
    return json.loads(state.payload)[1]


def test_a_schedule_that_stopped_itself_says_why(admin, nightly):
    Schedule.objects.update(error="<i>no such task</i>", cron="not a cron", next_run_at=2.0**62)
    text = text_of(admin, "/admin/tinyjobs/schedule/") + text_of(admin, "/admin/tinyjobs/schedule/nightly/change/")
    assert 'It has stopped itself: <q lang="en">&lt;i&gt;no such task' in text
    assert "cannot be resumed" in messages_of(act_on_schedule(admin, "resume", "nightly"))[0]


def test_tasks_can_be_chosen(admin):
    tasks.add.enqueue(1)
    assert f'<option value="{ADD}">' in text_of(admin, "/admin/tinyjobs/schedule/add/")
