"""Schedules in a Django project: declared with tasks and in the settings, kept as rows, steered by the task backend."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import StringIO
from uuid import uuid4

import django
import pytest
from asgiref.sync import sync_to_async
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.tasks import TaskResultStatus, task_backends
from django.tasks.exceptions import InvalidTask
from django.tasks.signals import task_enqueued

from tests.schedules.daily import tasks
from tinyjobs import task
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.cron import NEVER
from tinyjobs.core.errors import ConfigurationError, ScheduleNotFoundError, UnknownTaskError
from tinyjobs.models import Job, Schedule
from tinyjobs.runtime.scheduler import Scheduler
from tinyjobs.taskbackend.shared import use_clock
from tinyjobs.taskbackend.working import drain_here, open_scheduler, open_worker

APP = "tests.schedules.daily"
CLOSE, GREET, POST = (f"{APP}.tasks.{name}" for name in ("close_day", "greet", "post"))
MIDNIGHT = datetime(2026, 6, 1, 0, 0, tzinfo=UTC).timestamp()


@pytest.fixture
def clock():
    clock = FrozenClock(MIDNIGHT)
    use_clock(clock)
    yield clock
    use_clock(None)


@pytest.fixture
def project(settings, clock, transactional_db):
    """Settings of a project with the app; call it with options of the alias, and settings."""

    def configure(options=None, **values):
        settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, APP]
        for name, value in values.items():
            setattr(settings, name, value)
        settings.TASKS = {
            "default": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": [], "OPTIONS": options or {}},
            "other": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
        }
        tasks.ran.clear()
        return task_backends["default"]

    return configure


def tick(*, discover=True):
    """What a scheduler of the alias does until it would sleep."""
    with open_worker() as worker:
        engine = worker.engine
        if discover:
            engine.catalogue.discover()

        async def passes():
            scheduler = Scheduler(engine, engine.timetable)
            await engine.store.setup()
            try:
                while await scheduler.tick() == 0.0:
                    pass
                await scheduler.told()
            finally:
                if engine.store.capabilities.loop_bound:
                    await engine.store.close()

        asyncio.run(passes())


def next_of(name):
    return datetime.fromtimestamp(Schedule.objects.get(name=name).next_run_at, UTC)


# --- declared -----------------------------------------------------------------------------------------------------


def test_tasks_with_schedules(project, clock):
    project()
    tick()
    assert sorted(Schedule.objects.values_list("name", "timezone", "misfire", "overlap", "source")) == [
        (CLOSE, "UTC", "skip", False, "code"),
        (GREET, "America/New_York", "run_all", True, "code"),
    ]
    clock.advance(9 * 3600)
    tick()
    assert Job.objects.count() == 0  # 35 minutes late
    assert next_of(CLOSE) == datetime(2026, 6, 1, 9, 25, tzinfo=UTC)
    clock.advance(4 * 3600)
    tick()
    (job,) = Job.objects.filter(task=GREET)
    assert (job.queue, job.priority, job.scheduled_for, job.dedup_key) == ("default", 5, MIDNIGHT + 13 * 3600, None)


@pytest.mark.parametrize("use_tz", [True, False])
def test_the_zone_of_the_project(project, clock, use_tz):
    project(TIME_ZONE="Asia/Jakarta", USE_TZ=use_tz)
    tick()
    assert Schedule.objects.get(name=CLOSE).timezone == "Asia/Jakarta"
    assert next_of(CLOSE) == datetime(2026, 6, 1, 1, 25, tzinfo=UTC)
    clock.advance(85 * 60)
    tick()
    drain_here()
    ((name, stands_for),) = tasks.ran
    expected = datetime(2026, 6, 1, 1, 25, tzinfo=UTC)
    assert (name, stands_for) == ("close_day", expected if use_tz else datetime.fromtimestamp(expected.timestamp()))


def test_the_zone_of_the_alias_wins_over_that_of_the_project(project):
    project({"timezone": "Europe/Rome"}, TIME_ZONE="Asia/Jakarta")
    tick()
    assert Schedule.objects.get(name=CLOSE).timezone == "Europe/Rome"


def test_a_result_tells_the_time_its_schedule_meant(project, clock):
    backend = project()
    tick()
    clock.advance(8 * 3600 + 25 * 60)
    tick()
    job = Job.objects.get(task=CLOSE)
    meant = datetime(2026, 6, 1, 8, 25, tzinfo=UTC)
    assert backend.get_result(job.id).scheduled_for == meant
    assert backend.get_result(tasks.close_day.enqueue().id).scheduled_for is None


def test_schedules_by_name(project, clock):
    project(
        {
            "schedules": {
                "post.one": {"task": POST, "cron": "0 6 * * *", "args": [1], "kwargs": {"to": "us"}},
                "post.two": {"task": POST, "cron": "5 6 * * *", "args": [2], "queue": "late", "priority": -5},
            }
        }
    )
    tick()
    clock.advance(6 * 3600)
    tick()
    clock.advance(300)
    tick()
    jobs = Job.objects.filter(task=POST).order_by("id").values_list("queue", "priority", "max_attempts", "dedup_key")
    assert list(jobs) == [("default", 0, 3, "schedule:post.one"), ("late", -5, 3, "schedule:post.two")]
    drain_here()
    assert tasks.ran == [("post", 1, "us"), ("post", 2, "all")]


def test_a_task_of_another_alias_has_its_schedule_there(project, settings):
    project()
    settings.TASKS = {
        "default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
        "jobs": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": []},
    }
    with open_worker("jobs") as worker:
        worker.engine.catalogue.discover()
        assert dict(worker.engine.timetable.declared()) == {}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"task": POST, "cron": "0 0 30 2 *", "args": [1]}, "cron '0 0 30 2 *' never fires"),
        ({"task": POST, "args": [1]}, "it has no cron expression"),
        ({"cron": "@daily"}, "it names no task"),
        ({"task": POST, "cron": "@daily", "args": [1], "timezone": "Europe/Pariss"}, "Did you mean 'Europe/Paris'?"),
        ({"task": POST, "cron": "@daily", "args": [1], "misfire": "run_all"}, "'run_all' needs overlap=True"),
        ({"task": POST, "cron": "@daily", "every": 5}, "does not take 'every'"),
        ({"task": "shop.gone", "cron": "@daily"}, "there is no task 'shop.gone' in the installed apps"),
        ({"task": POST, "cron": "@daily"}, "cannot be called like this: missing a required argument: 'number'"),
        ({"task": POST, "cron": "@daily", "args": [object()]}, "Unsupported type"),
        ({"task": POST, "cron": "@daily", "args": [1], "priority": 1_000}, "priority must be"),
    ],
)
def test_an_entry_that_cannot_work_is_a_check_error_with_its_path(project, entry, reason):
    project({"schedules": {"x": entry}})
    found = [message for message in run_checks() if message.id in ("tinyjobs.E003", "tinyjobs.E007")]
    assert [reason in message.msg for message in found] == [True], found
    assert "TASKS['default']['OPTIONS']['schedules']['x']" in found[0].msg


def test_a_name_for_two_schedules_is_a_check_error(project):
    project({"schedules": {CLOSE: {"task": CLOSE, "cron": "@daily"}}})
    (found,) = (message for message in run_checks() if message.id == "tinyjobs.E007")
    assert "has the name of the schedule in" in found.msg


def test_wrong_settings_of_schedules(project):
    project({"schedules": [], "timezone": "Nowhere"})
    told = " ".join(message.msg for message in run_checks() if message.id == "tinyjobs.E003")
    assert "['schedules']: [] is not a dictionary" in told
    assert "['timezone']: timezone 'Nowhere' is not known" in told


def test_right_settings_are_no_error(project):
    project({"schedules": {"x": {"task": POST, "cron": "@daily", "args": [1]}}, "timezone": "Europe/Rome"})
    assert [message for message in run_checks() if message.id and "tinyjobs.E" in message.id] == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cron": "* * *"}, "3 fields instead of five"),
        ({"cron": "@daily", "timezone": "Mars"}, "timezone 'Mars' is not known"),
        ({"cron": "@daily", "misfire": "never"}, "is no policy"),
        ({"cron": "@daily", "overlap": "yes"}, "overlap: 'yes' is not True or False"),
        ({"cron": "@daily", "misfire": "run_all"}, "needs overlap=True"),
        ({"misfire": "run_once"}, "misfire without cron"),
    ],
)
def test_a_decorator_that_cannot_work_is_refused_at_import(options, reason):
    decorators = [task]
    if django.VERSION >= (6, 1):
        from django.tasks import task as djangos

        decorators.append(djangos)
    for decorator in decorators:
        with pytest.raises(InvalidTask, match=reason):
            decorator(**options)(tasks.greet.func)


def test_a_decorator_over_a_function_that_needs_arguments():
    with pytest.raises(InvalidTask, match=r"calls it without arguments: .*'number'.*\['OPTIONS'\]\['schedules'\]"):
        task(cron="@daily")(tasks.post.func)
    assert task(cron="@daily", takes_context=True)(tasks.close_day.func).cron == "@daily"


def test_a_schedule_is_not_for_one_job():
    with pytest.raises(TypeError, match="using\\(\\) does not take cron"):
        tasks.post.using(cron="@daily")


# --- steered ------------------------------------------------------------------------------------------------------


def test_pausing_resuming_and_running_by_hand(project, clock):
    backend = project()
    tick()
    assert backend.pause_schedule(CLOSE).next_run_at == NEVER
    clock.advance(8 * 3600 + 25 * 60)
    tick()
    assert not Job.objects.filter(task=CLOSE).exists()
    first, second = backend.run_schedule(CLOSE), backend.run_schedule(CLOSE)
    assert (first.existing, second.existing, second.id, first.scheduled_for) == (False, True, first.id, None)
    assert datetime.fromtimestamp(backend.resume_schedule(CLOSE).next_run_at, UTC).hour == 9
    assert {state.name for state in backend.schedules()} == {CLOSE, GREET}
    with pytest.raises(ScheduleNotFoundError):
        backend.pause_schedule("nowhere")


def test_a_change_is_part_of_the_callers_transaction(project):
    backend = project()
    tick()
    with pytest.raises(RuntimeError), transaction.atomic():
        backend.pause_schedule(CLOSE)
        backend.save_schedule("x", task=tasks.post, cron="@daily", args=[1])
        backend.run_schedule(CLOSE)
        raise RuntimeError
    assert Schedule.objects.filter(name="x").count() == Job.objects.count() == 0
    assert next_of(CLOSE) == datetime(2026, 6, 1, 8, 25, tzinfo=UTC)


def test_schedules_kept_as_rows(project, clock):
    backend = project(TIME_ZONE="Europe/Rome")
    made = backend.save_schedule("weekly", task=tasks.post, cron="0 8 * * *", args=[7], priority=9)
    assert (made.task, made.timezone, made.source, made.priority) == (POST, "Europe/Rome", "data", 9)
    row = Schedule.objects.get(name="weekly")
    assert (row.cron, row.skips, row.error, bytes(row.payload)) == ("0 8 * * *", 0, None, b"[[7],{}]")
    clock.advance(6 * 3600)
    tick()
    drain_here()
    assert tasks.ran == [("post", 7, "all")]
    backend.save_schedule("weekly", task=POST, cron="0 8 * * *", args=[8])
    backend.run_schedule("weekly")
    drain_here()
    assert tasks.ran[1:] == [("post", 8, "all")]
    backend.delete_schedule("weekly")
    assert not Schedule.objects.filter(name="weekly").exists()


def test_only_the_projects_tasks_can_be_named(project):
    backend = project()
    for name in ("os.system", "shop.tasks.gone", "django.core.mail.send_mail"):
        with pytest.raises(UnknownTaskError, match="no task"):
            backend.save_schedule("x", task=name, cron="@daily")
    with pytest.raises(ConfigurationError, match="never fires"):
        backend.save_schedule("x", task=POST, cron="0 0 31 2 *", args=[1])
    with pytest.raises(TypeError, match="cannot be called like this"):
        backend.save_schedule("x", task=POST, cron="@daily")
    assert not Schedule.objects.exists()


def test_a_row_that_somebody_wrote_by_hand_names_nothing_but_tasks(project, clock, caplog):
    project()
    common = {"timezone": "UTC", "next_run_at": MIDNIGHT, "source": "data"}
    Schedule.objects.create(name="bad", cron="* * * * *", task="os.system", **common)
    Schedule.objects.create(name="worse", cron="31 2", task=POST, **common)
    tick()
    clock.advance(30)
    assert Schedule.objects.get(name="bad").error is None
    assert "instead of five" in Schedule.objects.get(name="worse").error
    assert not Job.objects.exists()


def test_the_same_from_async_code(project):
    backend = project()

    async def steer():
        await backend.asave_schedule("x", task=POST, cron="@daily", args=[1])
        await backend.apause_schedule("x")
        await backend.aresume_schedule("x")
        result = await backend.arun_schedule("x")
        states = await backend.aschedules()
        await backend.adelete_schedule("x")
        await sync_to_async(connections.close_all, thread_sensitive=True)()
        return result, states

    result, states = asyncio.run(steer())
    assert ([state.name for state in states], result.args) == (["x"], [1])
    assert not Schedule.objects.exists()


# --- found by `check` ---------------------------------------------------------------------------------------------


@pytest.fixture
def checked(project, settings, tmp_path, monkeypatch, django_assert_num_queries):
    """What `check` says of a project with an app whose tasks module has this text."""

    def check(text, **values):
        project(**values)
        name = f"torn_{uuid4().hex}"
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "tasks.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, name]
        with django_assert_num_queries(0):
            return [(found.id, found.msg) for found in run_checks() if (found.id or "").startswith("tinyjobs.")]

    return check


@pytest.mark.parametrize(
    ("text", "number", "reason"),
    [
        ("@task(cron='@daily', timezone='Europe/Nowhere')\ndef one(): pass", "E008", "'Europe/Nowhere' is not known"),
        ("@task(cron='@daily')\ndef one(number): pass", "E008", "calls it without arguments"),
        ("@task(lease=-1)\ndef one(): pass", "W005", "TypeError"),
        ("1 / 0", "W005", "ZeroDivisionError: division by zero"),
        ("exit(3)", "W005", "SystemExit: 3"),
    ],
)
def test_check_imports_the_tasks_modules(checked, text, number, reason):
    ((found, told),) = checked(f"from tinyjobs import task\n{text}\n")
    assert found == f"tinyjobs.{number}" and told.startswith("torn_") and reason in told


def test_check_says_nothing_of_other_projects(checked, settings):
    other = {"default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}}
    assert checked("1 / 0") != []
    settings.TASKS = other
    assert [found for found in run_checks() if (found.id or "").startswith("tinyjobs.")] == []


def test_check_finds_that_there_is_no_zone(checked):
    (close,) = checked("from tinyjobs import task\n", TIME_ZONE=None)
    assert close[0] == "tinyjobs.E007"
    assert close[1].startswith(f"the task {CLOSE}: it names no timezone") and "Set TIME_ZONE" in close[1]


def test_an_entry_without_a_zone_where_there_is_none_is_named(project):
    project({"schedules": {"x": {"task": CLOSE, "cron": "@daily"}}}, TIME_ZONE=None)
    told = [found.msg for found in run_checks() if found.id == "tinyjobs.E003"]
    assert any("['schedules']['x']: it names no timezone" in text and "Set TIME_ZONE" in text for text in told)


def test_a_table_that_is_gone_is_an_error_that_names_it_and_no_outage(project, clock, caplog):
    project()
    tick()
    with open_scheduler() as running, ThreadPoolExecutor(1) as pool:
        with connections["default"].cursor() as cursor:
            cursor.execute("DROP TABLE tinyjobs_schedules")
        try:
            ended = pool.submit(lambda: asyncio.run(running.run()))
            until(lambda: running.engine.hooks is not None and caplog.records)
            for _ in range(20):
                clock.advance(1)
                time.sleep(0.01)
            with pytest.raises(CommandError, match="tinyjobs_schedules") as refused:
                call_command("tinyjobs", "schedules", stdout=StringIO())
            told = [found.msg for found in run_checks(databases=["default"]) if found.id == "tinyjobs.W004"]
            first = [(record.levelname, record.message) for record in caplog.records]
            clock.advance(60)
            until(lambda: "schedules still cannot be fired" in caplog.text)
        finally:
            running.stop()
            # As it was, to the letter of its DDL, for the tests that come after.
            call_command("migrate", verbosity=0)
        ended.result(20)
    assert refused.value.returncode != 0
    assert len(told) == 1 and "tinyjobs_schedules" in told[0]
    assert [level for level, _ in first] == ["ERROR"]
    assert "tinyjobs_schedules" in first[0][1] and "manage.py migrate" in first[0][1]
    assert "out of reach" not in caplog.text


# --- told of ------------------------------------------------------------------------------------------------------


class Heard:
    """What `task_enqueued` tells of, and whether the ORM could be used there."""

    def __init__(self, more=()):
        self.told, self.more = [], more

    def hear(self, sender, task_result, **kwargs):
        self.told.append((sender, task_result, Job.objects.filter(id=task_result.id).count()))

    def __enter__(self):
        for receiver in (*self.more, self.hear):
            task_enqueued.connect(receiver)
        return self

    def __exit__(self, *exc):
        for receiver in (*self.more, self.hear):
            task_enqueued.disconnect(receiver)


def raising(**kwargs):
    raise RuntimeError("a receiver that fails")


@pytest.mark.parametrize("opened", [open_worker, open_scheduler])
def test_jobs_of_a_schedule_are_told_of_once_they_are_kept(project, clock, opened):
    backend = project({"schedules": {"x": {"task": POST, "cron": "0 8 * * *", "args": [3], "overlap": True}}})
    tick()
    clock.advance(8 * 3600)
    with Heard([raising]) as heard, opened() as running, ThreadPoolExecutor(1) as pool:
        running.engine.catalogue.discover()
        ended = pool.submit(lambda: asyncio.run(running.run()))
        try:
            until(lambda: heard.told)
        finally:
            running.stop()
        ended.result(20)
    ((sender, result, rows),) = heard.told
    assert (sender, rows, result.args, result.backend) == (type(backend), 1, [3], "default")
    assert (result.id, result.status) == (Job.objects.get(task=POST).id, TaskResultStatus.READY)
    assert result.scheduled_for.timestamp() == MIDNIGHT + 8 * 3600


def test_a_firing_that_makes_no_job_is_not_told_of(project, clock):
    project({"schedules": {"x": {"task": POST, "cron": "0 * * * *", "args": [3]}}})
    tick()
    with Heard() as heard:
        for hour in range(1, 4):
            clock.advance(3600)
            tick()
            assert (hour, [result.id for _, result, _ in heard.told]) == (hour, [Job.objects.get(task=POST).id])


def test_a_job_that_the_command_made_is_told_of(project):
    project()
    with Heard() as heard:
        for _ in range(2):
            call_command("tinyjobs", "schedules", "run", CLOSE, stdout=StringIO())
    assert [(result.id, rows) for _, result, rows in heard.told] == [(Job.objects.get().id, 1)]


# --- a worker and a scheduler of the project ----------------------------------------------------------------------


def until(condition):
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


@pytest.mark.parametrize("kind", ["worker", "scheduler"])
def test_both_fire_with_connections_of_their_own(project, kind):
    """On the machine's clock, with a row that is due."""
    use_clock(None)
    backend = project()
    made = backend.save_schedule("x", task=POST, cron="* * * * *", args=[5])
    Schedule.objects.filter(name="x").update(next_run_at=made.next_run_at - 60)
    opened = open_worker() if kind == "worker" else open_scheduler()
    with opened as running, ThreadPoolExecutor(1) as thread:
        ended = thread.submit(lambda: asyncio.run(running.run()))
        until(lambda: Job.objects.filter(scheduled_for=made.next_run_at - 60).exists())
        if kind == "worker":
            until(lambda: tasks.ran)
        running.stop()
        report = ended.result(20)
    assert (report.succeeded if kind == "worker" else report.fired) >= 1


def test_a_task_that_nobody_imported_yet_can_be_paused(project):
    backend = project()
    assert backend.pause_schedule(CLOSE).next_run_at == NEVER
    assert Schedule.objects.get(name=CLOSE).source == "code"


def test_a_row_that_cannot_be_read_is_not_resumed(project):
    backend = project()
    Schedule.objects.create(name="x", cron="?", timezone="UTC", next_run_at=NEVER, task=POST, source="data")
    with pytest.raises(ConfigurationError, match=r"The schedule 'x' cannot be resumed: cron '\?' has 1 field"):
        backend.resume_schedule("x")
