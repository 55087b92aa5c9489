"""No page, no outcome of an action and no error has a text that stays English, whatever the store holds."""

import json
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.tasks import task_backends
from django.test import RequestFactory
from django.utils.translation import override, trans_real

from tests.dashboard.conftest import act, act_on_schedule, client_of, store, stored
from tests.dashboard.marking import Marked, english, has_words, unmarked
from tests.taskbackend.shop import tasks
from tinyjobs import TinyJobs
from tinyjobs.core import errors
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, ScheduleState
from tinyjobs.core.sentences import say
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.dashboard import deadlines
from tinyjobs.dashboard.alone import Alone, desks_of
from tinyjobs.models import Execution, Job, Schedule
from tinyjobs.testing import drain

pytestmark = pytest.mark.django_db

ADD, NOOP = "tests.taskbackend.shop.tasks.add", "tests.taskbackend.shop.tasks.noop"
FORM = {"name": "νυχτερινό", "task": ADD, "cron": "30 2 * * 1-5", "args": "[1]", "misfire": "skip"}
LATE = 1_000.0


@pytest.fixture(autouse=True)
def marks(monkeypatch, settings):
    """Pages are in German, with marks around what was translated."""
    settings.LANGUAGE_CODE = "de"
    monkeypatch.setitem(trans_real._translations, "de", Marked("de"))
    # What an audit finds has names and values of settings in it; it has tests of its own.
    monkeypatch.setattr(type(store()), "audit", nothing)
    with override("de"):
        yield


async def nothing(self):
    return ()


@pytest.fixture
def admin(db):
    return client_of(User.objects.create_superuser("Ελένη"))


def page(client, url, status=200):
    """A page of which all is translated; what it says."""
    answer = client.get(f"/admin/tinyjobs/{url}")
    return checked(answer, status)


def checked(answer, status=200):
    text = answer.content.decode()
    assert answer.status_code == status, text[-2000:]
    assert unmarked(text) == []
    return text


def test_the_marks_show_what_is_missing():
    assert unmarked('<p lang="de">⟦gut⟧ 12</p><p title="bad">⟦gut⟧ and bad</p>') == ["bad", "⟦gut⟧ and bad"]
    assert unmarked("<pre>code</pre><p>Ελένη 01a22b0d-15a0-7551-90ba-94f7988dc789</p>") == []
    assert english('<html lang="de"><q lang="en">it said <b>so</b></q>') == ["it said", "so"]
    assert Marked("de").gettext("%(used)s of %(most)s") != "%(used)s of %(most)s"
    assert Marked("de").gettext("nobody has translated this") == "nobody has translated this"


# --- pages of a store that has everything -----------------------------------------------------------------------------


def filled():
    """Jobs of every status and with everything that can be odd about them; the ids of those whose pages differ."""
    kept, now = store(), store().clock.now()
    odd = {
        "success": {},
        "failed": {"last_error": "Σφάλμα: όχι", "runs_after": "ά-β", "scheduled_for": now, "hand_backs": 2},
        "cancelled": {"last_error": None},
        "pickle": {"codec": "pickle", "result": b"\x80", "payload": b"\x80\x04"},
        "large": {"payload": json.dumps([["α" * 2_000_000], {}]).encode(), "result": b'"' + b"9" * 1_100_000 + b'"'},
        "broken": {"payload": b"{", "result": b"{"},
        "codec": {"codec": "ξένο", "result": b"1"},
        "long": {"payload": json.dumps([["α" * 20_000], {"ά": "β"}]).encode()},
    }
    made = {name: (tasks.fail if name == "failed" else tasks.noop).enqueue("α").id for name in odd}
    drain()
    for name, changed in odd.items():
        status = name if name in ("success", "failed", "cancelled") else "success"
        Job.objects.filter(pk=made[name]).update(status=status, worker_id="εργάτης", **changed)
    Execution.objects.update(error_type="βιβλίο.Σφάλμα", worker_id="εργάτης")
    made["running"] = tasks.add.enqueue(1).id
    finish(kept.claim(ClaimRequest(worker_id="εργάτης", limit=1, lease=300.0)))
    made["queued"] = tasks.noop.using(key="κλειδί", expires=3_600).enqueue().id
    made["unknown"] = tasks.add.enqueue(1).id
    Job.objects.filter(pk=made["unknown"]).update(task="ξένη.δουλειά", run_at=now + 900)
    for name, queues, seen in (("α", ("ουρά",), now), ("β", (), now - LATE), ("γ", ("ουρά",), now)):
        worker = {"worker_id": name, "host": "μηχανή", "pid": 1, "version": "1", "started_at": now - LATE}
        worker |= {"queues": queues, "seen_at": seen, "is_stopping": name == "γ"}
        finish(kept.beat(WorkerSeen(**worker)))
    return made


def with_schedules(error="no such task"):
    backend, now = task_backends["default"], store().clock.now()
    backend.save_schedule("καθημερινό", task=ADD, cron="30 2 1,15 * *", args=[1], timezone="Europe/Rome")
    backend.save_schedule("άδειο", task=NOOP, cron="@hourly", overlap=True, misfire="run_all", timezone="UTC")
    common = {"cron": "*/15 8-16 * * 1-5", "timezone": "UTC", "task": NOOP, "next_run_at": now + 600}
    for name, more in {
        "αργό": {"next_run_at": now - 10 * LATE, "source": "data", "skips": 3},
        "σταματημένο": {"source": "data", "skips": 1, "next_run_at": 2.0**62},
        "παλιό": {"source": "code", "last_run_at": now - 300},
        "σπασμένο": {"source": "data", "payload": b"{", "queue": "ουρά", "priority": 5},
    }.items():
        finish(store().save_schedule(ScheduleState(**{**common, "name": name, **more})))
    Schedule.objects.filter(name="σταματημένο").update(error=error)
    return [schedule.name for schedule in Schedule.objects.all()]


@pytest.mark.parametrize("url", ["", "job/", "schedule/", "queues/", "workers/", "schedule/add/", "job/?q=α&task=x"])
def test_an_empty_store(admin, url):
    page(admin, url)


def test_every_page_of_a_full_store(admin, caplog):
    made = filled()
    for name, job_id in made.items():
        page(admin, f"job/{job_id}/")
        if name == "large":
            page(admin, f"job/{job_id}/?all=1")
    for url in ("", "job/", "job/?status=success&queue=x", "job/?q=α", "queues/", "workers/", "job/?task=ξένη.δουλειά"):
        page(admin, url)


def test_every_page_of_schedules(admin, monkeypatch):
    backend = task_backends["default"]
    names = with_schedules()
    monkeypatch.setattr(backend.shared.timetable, "unimported", {"tests.nowhere": ImportError("no such module")})
    monkeypatch.setattr(type(backend.shared.timetable), "problems", lambda self: ["the task is not there"])
    listing = page(admin, "schedule/")
    assert {"no such task", "the task is not there"} <= set(english(listing))
    for name in names:
        page(admin, f"schedule/{name}/change/")
    page(admin, "schedule/καθημερινό/edit/")
    Job.objects.all().delete()
    page(admin, "schedule/?q=zzz")


def test_what_a_check_finds(admin, monkeypatch, settings):
    """A store where all is wrong, in a project whose settings and modules are."""
    with_schedules("όχι")
    job_id = tasks.add.enqueue(1).id
    finish(store().claim(ClaimRequest(worker_id="εργάτης", limit=1, lease=300.0)))
    Job.objects.filter(pk=job_id).update(lease_expires_at=1.0)
    Job.objects.filter(pk=tasks.add.enqueue(1).id).update(task="ξένη.δουλειά", ready_at=1.0, run_at=1.0)
    timetable = task_backends["default"].shared.timetable
    monkeypatch.setattr(timetable, "unimported", {"βιβλίο.δουλειές": ImportError("ά")})
    if connection.vendor == "sqlite":
        changed = {**connection.settings_dict["OPTIONS"], "transaction_mode": "DEFERRED"}
        monkeypatch.setitem(connection.settings_dict, "OPTIONS", changed)
    text = page(admin, "")
    assert "βιβλίο.δουλειές" in text
    assert connection.vendor != "sqlite" or "transaction_mode" in text


# --- actions ----------------------------------------------------------------------------------------------------------


def test_every_question_and_outcome_of_jobs(admin):
    failed = tasks.fail.enqueue("α").id
    drain()
    held, queued = tasks.noop.using(key="κλειδί").enqueue().id, tasks.add.enqueue(1).id
    finish(store().cancel(held))
    tasks.noop.using(key="κλειδί").enqueue()
    gone = "01a22a3a-6ab1-76b2-a3eb-a0b989b3978d"
    for action in ("retry", "cancel", "delete"):
        for ids in ([failed], [failed, queued]):
            checked(act(admin, action, *ids, confirmed=""))
        checked(act(admin, action))
        checked(act(admin, action, failed, held, queued, gone))
    checked(act(admin, "cancel", *(f"01a22a3a-6ab1-76b2-a3eb-{number:012x}" for number in range(201))))
    assert stored(failed) is None


@pytest.mark.parametrize("action", ["pause", "resume", "run", "delete"])
def test_every_outcome_of_a_schedule(admin, action, monkeypatch):
    names = with_schedules()
    checked(act_on_schedule(admin, action, names[0], confirmed=""))
    for name in (*names, "πουθενά"):
        checked(act_on_schedule(admin, action, name))
        checked(act_on_schedule(admin, action, name))  # once more
    timetable = task_backends["default"].shared.timetable
    monkeypatch.setattr(timetable, "unimported", {"tests.nowhere": ImportError("ά")})
    checked(act_on_schedule(admin, action, "παλιό"))


@pytest.mark.parametrize(
    "changed",
    [
        {"cron": "ανοησία"},
        {"cron": "61 * * * *"},
        {"cron": "@ποτέ"},
        {"cron": "0 0 31 2 *"},
        {"cron": ""},
        {"task": "πουθενά.τίποτα"},
        {"args": "[1, 2, 3]"},
        {"args": "{}"},
        {"args": "[NaN]"},
        {"kwargs": "[1"},
        {"kwargs": '{"c": 1}'},
        {"queue": "πουθενά"},
        {"priority": "1000"},
        {"priority": "ψηλά"},
        {"timezone": "Άρης"},
        {"misfire": "ίσως"},
        {"misfire": "run_all"},
        {"name": "ά" * 300},
        {"name": "καθημερινό"},
        {"name": "ά\x07"},
    ],
)
def test_every_complaint_of_the_form(admin, changed):
    with_schedules()
    text = checked(admin.post("/admin/tinyjobs/schedule/add/", {**FORM, **changed}))
    assert "errorlist" in text
    # What Python says of a call and Django of a queue and a priority is English.
    assert english(text) == [] or set(changed) & {"args", "kwargs", "queue", "priority", "name"}


def test_the_form_of_one_that_was_made(admin):
    checked(admin.post("/admin/tinyjobs/schedule/add/", FORM, follow=True))
    url = "/admin/tinyjobs/schedule/νυχτερινό/edit/"
    checked(admin.post(url, {**FORM, "cron": "@daily"}, follow=True))


# --- trouble ----------------------------------------------------------------------------------------------------------

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TinyJobsError)]


@pytest.fixture
def failing(monkeypatch):
    """Call it with an error: verbs of the store raise it from then on."""

    def fail(error):
        async def refuse(self, *given, **named):
            raise error

        for verb in ("stats", "cancel", "schedules", "list"):
            monkeypatch.setattr(type(store()), verb, refuse)

    return fail


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_error(admin, failing, kind):
    job_id = tasks.add.enqueue(1).id
    failing(kind("the driver said so"))
    text = page(admin, "", 503)
    assert english(text) == ["the driver said so"]
    text = checked(act(admin, "cancel", job_id, back="job"))
    assert "the driver said so" in english(text)
    answer = act_on_schedule(admin, "pause", "άλλο")
    assert "the driver said so" in english(checked(answer, answer.status_code))
    answer = admin.post("/admin/tinyjobs/schedule/add/", FORM)
    assert "the driver said so" in english(checked(answer, answer.status_code))


def test_an_error_of_the_database(admin, failing):
    failing(OperationalError("could not connect to 10.0.0.7"))
    text = page(admin, "", 503)
    assert english(text) == [] and "OperationalError" in text


def test_a_store_that_is_too_slow(admin, failing):
    failing(deadlines.no_answer("η βάση", 5.0))
    assert english(page(admin, "", 503)) == []


def test_where_the_frame_cannot_be_made(admin, failing, monkeypatch):
    failing(errors.StoreBusyError("the driver said so"))

    def refuse(self, request):
        raise OperationalError("gone")

    monkeypatch.setattr("django.contrib.admin.AdminSite.each_context", refuse)
    answer = admin.get("/admin/tinyjobs/")
    assert answer["Content-Type"].startswith("text/plain")
    assert not has_words(answer.content.decode().replace("“the driver said so”", ""))


def test_a_sentence_that_nobody_knows_is_said_to_be_english(admin, failing):
    failing(errors.StoreError(say("nobody has %(what)s this", what="translated")))
    assert english(page(admin, "", 503)) == ["nobody has translated this"]


def test_wrong_settings_and_none(admin, settings):
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"lease": -1}}}
    (words,) = english(page(admin, "", 503))
    assert "lease" in words
    settings.TASKS = {"default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}}
    page(admin, "", 404)


# --- the dashboard by itself ------------------------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Call it with an address: the answer of a dashboard without an admin, whose program declares one schedule."""
    app = TinyJobs(f"sqlite:///{tmp_path}/jobs.db")
    app.task(name="δουλειά", cron="0 3 * * *")(lambda: None)
    desks = desks_of(app)
    respond = Alone(desks).respond

    def ask(url, method="get", host="localhost", **given):
        headers = {"host": host, "accept-language": "de"}
        return respond(getattr(RequestFactory(), method)(url, given, headers=headers))

    with app:
        monkeypatch.setattr(type(desks()["app"]().store), "audit", nothing)
        yield ask


def test_every_page_of_a_dashboard_by_itself(alone):
    one = f"schedule/{quote('δουλειά')}/change/"
    for url in ("", "job/", "schedule/", "schedule/add/", "queues/", "workers/", one):
        checked(alone(f"/tinyjobs/{url}"))


@pytest.mark.parametrize(
    ("url", "method", "status"),
    [
        ("/nothing/", "get", 404),
        ("/tinyjobs/job/nothing/", "get", 404),
        ("/static/other/file.css", "get", 404),
        ("/static/admin/nothing.css", "get", 404),
        (f"/tinyjobs/schedule/{quote('δουλειά')}/edit/", "get", 403),
        ("/tinyjobs/job/act/", "post", 403),  # without the token
    ],
)
def test_what_a_dashboard_by_itself_refuses(alone, url, method, status):
    checked(alone(url, method), status)


def test_a_host_that_is_not_allowed(alone):
    answer = alone("/tinyjobs/", host="κακό.example")
    assert answer.status_code == 400
    text = answer.content.decode()
    for name in (".example", "--allowed-host", "hosts=", "wsgi()", "asgi()"):
        assert name in text
        text = text.replace(name, "")
    assert not has_words(text)
