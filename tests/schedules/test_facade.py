"""Schedules of a program without Django: what may be declared, and what can be done to them."""

import asyncio
from datetime import UTC, datetime

import pytest

from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.context import current_job
from tinyjobs.core.cron import NEVER
from tinyjobs.core.errors import ConfigurationError, ScheduleNotFoundError, SerializationError, UnknownTaskError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job, ScheduleState
from tinyjobs.runtime.scheduler import Scheduler

NINE = datetime(2026, 6, 1, 9, 0, tzinfo=UTC).timestamp()


@pytest.fixture
def clock():
    return FrozenClock(NINE)


@pytest.fixture
def make_app(clock):
    apps = []

    def make(url="memory://", **options):
        apps.append(TinyJobs(url, clock=clock, **options))
        return apps[-1]

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def app(make_app):
    return make_app()


@pytest.fixture(params=["sync", "async"])
def call(request):
    def sync(owner, verb, *args, **kwargs):
        return getattr(owner, verb)(*args, **kwargs)

    def awaited(owner, verb, *args, **kwargs):
        return asyncio.run(getattr(owner, "a" + verb)(*args, **kwargs))

    return sync if request.param == "sync" else awaited


def tick(app):
    """What a scheduler of the app does until it would sleep."""
    app.setup()
    engine = app.engine

    async def passes():
        scheduler = Scheduler(engine, engine.timetable)
        while await scheduler.tick() == 0.0:
            pass

    asyncio.run(passes())


def jobs(app) -> list[Job]:
    return app.list().jobs[::-1]


def stored(app, name) -> ScheduleState:
    return next(state for state in app.schedules() if state.name == name)


# --- declaring ----------------------------------------------------------------------------------------------------


def test_a_task_with_a_schedule(app, clock):
    @app.task(name="report", cron="*/15 * * * *", timezone="Europe/Rome", queue="reports", priority=3, max_attempts=4)
    async def report(kind="daily"):
        return kind

    tick(app)
    state = stored(app, "report")
    assert (state.cron, state.timezone, state.misfire, state.overlap) == ("*/15 * * * *", "Europe/Rome", "skip", False)
    assert (state.task, state.payload, state.source, state.next_run_at) == ("report", None, "code", NINE + 900)
    clock.advance(900)
    tick(app)
    (job,) = jobs(app)
    assert (job.task, job.queue, job.priority, job.max_attempts) == ("report", "reports", 3, 4)
    assert (job.scheduled_for, job.key) == (NINE + 900, "schedule:report")
    assert app.drain() == 1
    report.enqueue("weekly")  # it is an ordinary task as well
    assert app.drain() == 1


def test_a_job_tells_its_task_the_time_it_stands_for(app, clock):
    seen = []

    @app.task(name="note", cron="@hourly")
    def note():
        seen.append(current_job().scheduled_for)

    tick(app)
    clock.advance(3600)
    tick(app)
    note.enqueue()
    app.drain()
    assert set(seen) == {NINE + 3600, None}


def test_several_schedules_of_one_task(make_app, clock):
    app = make_app(
        schedules={
            "close.rome": {"task": "close", "cron": "0 10 * * *", "args": ["rome"], "timezone": "Europe/Rome"},
            "close.utc": {
                "task": "close",
                "cron": "0 10 * * *",
                "kwargs": {"place": "utc"},
                "queue": "q",
                "priority": -1,
            },
        },
        timezone="Asia/Jakarta",
    )
    ran = []

    @app.task(name="close", queue="days")
    def close(place):
        ran.append(place)

    tick(app)
    assert {state.name: state.timezone for state in app.schedules()} == {
        "close.rome": "Europe/Rome",
        "close.utc": "Asia/Jakarta",
    }
    clock.advance(24 * 3600 - 7200)
    for _ in range(25):
        clock.advance(3600)
        tick(app)
    assert [(job.queue, job.priority) for job in jobs(app)] == [("days", 0), ("q", -1)]
    app.drain()
    assert ran == ["rome", "utc"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cron": "61 * * * *"}, "the task late.*: cron '61 \\* \\* \\* \\*': minute '61' cannot be"),
        ({"cron": "0 0 31 2 *"}, "never fires"),
        ({"cron": 5}, "is no text"),
        ({"cron": "@daily", "timezone": "Europe/Roma"}, "'Europe/Roma' is not known. Did you mean 'Europe/Rome'"),
        ({"cron": "@daily", "misfire": "maybe"}, "misfire 'maybe' is no policy"),
        ({"cron": "@daily", "overlap": 1}, "overlap: 1 is not True or False"),
        ({"cron": "@daily", "misfire": "run_all"}, "'run_all' needs overlap=True"),
        ({"timezone": "UTC"}, "timezone without cron"),
        ({"overlap": True, "misfire": "skip"}, "misfire, overlap without cron"),
    ],
)
def test_a_decorator_that_cannot_work_is_refused_where_it_stands(app, options, reason):
    with pytest.raises(ConfigurationError, match=reason):

        @app.task(name="late", **options)
        def late():
            pass

    assert not app.tasks


def test_a_decorator_over_a_function_that_needs_arguments(app):
    with pytest.raises(ConfigurationError, match=r"test_facade.py:.*calls it without arguments: .*'number'"):

        @app.task(cron="@daily")
        def late(number):
            pass


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"cron": "@daily"}, r"schedules\['x'\]: it names no task"),
        ({"task": "note"}, r"schedules\['x'\]: it has no cron expression"),
        ({"task": "note", "cron": "@sometimes"}, r"schedules\['x'\]: cron '@sometimes' is no macro"),
        (
            {"task": "note", "cron": "@daily", "arguments": []},
            r"schedules\['x'\] does not take 'arguments'. It takes: a",
        ),
        ({"task": "note", "cron": "@daily", "args": "abc"}, r"schedules\['x'\]: args: 'abc' is not a list"),
        ({"task": "note", "cron": "@daily", "kwargs": [1]}, r"schedules\['x'\]: kwargs: \[1\] is not a dictionary"),
        ({"task": "note", "cron": "@daily", "queue": "a,b"}, r"schedules\['x'\]: queue: 'a,b' is no queue name"),
        ({"task": "note", "cron": "@daily", "priority": 2**31}, r"schedules\['x'\]: priority: 2147483648 is outside"),
        ("note", r"schedules\['x'\]: 'note' is not a dictionary"),
    ],
)
def test_an_entry_that_cannot_work_is_refused_at_once(make_app, entry, reason):
    with pytest.raises(ConfigurationError, match=reason):
        make_app(schedules={"x": entry})


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"task": "gone"}, r"schedules\['x'\]: there is no task 'gone'"),
        ({"task": "note", "args": [1]}, r"schedules\['x'\]: the task note cannot be called like this: too many"),
        ({"task": "takes", "args": [object()]}, r"schedules\['x'\]"),
    ],
)
def test_an_entry_that_does_not_fit_its_task_keeps_a_worker_from_starting(make_app, entry, reason):
    app = make_app(schedules={"x": {"cron": "@daily", **entry}, "right": {"cron": "@daily", "task": "note"}})
    app.task(lambda: None) if False else None

    @app.task(name="note")
    def note():
        pass

    @app.task(name="takes")
    def takes(value):
        pass

    for run in (lambda: app.worker().run(), lambda: app.scheduler().run()):
        with pytest.raises(ConfigurationError, match=reason):
            asyncio.run(run())
    assert list(app.engine.timetable.declared()) == ["right"]


def test_a_name_for_two_schedules_is_refused(make_app):
    app = make_app(schedules={"note": {"task": "other", "cron": "@daily"}})
    with pytest.raises(ConfigurationError, match=r"schedules\['note'\] has the name of its schedule"):

        @app.task(name="note", cron="@daily")
        def note():
            pass


def test_a_zone_that_is_none(make_app):
    with pytest.raises(ConfigurationError, match="TinyJobs: timezone 'Berlin' is not known"):
        make_app(timezone="Berlin")


# --- pausing, resuming, running by hand ---------------------------------------------------------------------------


@pytest.fixture
def noting(app):
    app.ran = []

    @app.task(name="note", cron="0 10 * * *")
    def note():
        app.ran.append(1)

    return app


def test_pausing_and_resuming(noting, clock, call):
    tick(noting)
    assert call(noting, "pause_schedule", "note").next_run_at == NEVER
    assert call(noting, "pause_schedule", "note").next_run_at == NEVER
    clock.advance(2 * 3600)
    tick(noting)
    assert (jobs(noting), stored(noting, "note").next_run_at) == ([], NEVER)
    assert call(noting, "resume_schedule", "note").next_run_at == NINE + 25 * 3600
    assert call(noting, "resume_schedule", "note").next_run_at == NINE + 25 * 3600
    clock.advance(23 * 3600)
    tick(noting)
    assert [job.scheduled_for for job in jobs(noting)] == [NINE + 25 * 3600]


def test_pausing_before_any_scheduler_has_run(noting, clock, call):
    call(noting, "pause_schedule", "note")
    tick(noting)
    clock.advance(3600)
    tick(noting)
    assert jobs(noting) == []


def test_a_process_without_the_task_can_pause_and_resume(make_app, tmp_path, clock, call):
    url = f"sqlite:///{tmp_path}/jobs.db"
    knowing, other = make_app(url), make_app(url)

    @knowing.task(name="note", cron="0 10 * * *", timezone="Europe/Rome")
    def note():
        pass

    tick(knowing)
    call(other, "pause_schedule", "note")
    clock.advance(600)
    assert call(other, "resume_schedule", "note").next_run_at == NINE + 23 * 3600
    with pytest.raises(UnknownTaskError, match="there is no task 'note'"):
        call(other, "run_schedule", "note")


def test_what_is_resumed_goes_by_the_rule_of_the_code(make_app, tmp_path, clock, call):
    url = f"sqlite:///{tmp_path}/jobs.db"
    for rule in ("0 10 * * *", "30 9 * * *"):
        app = make_app(url)
        app.task(name="note", cron=rule)(lambda: None)
        if rule == "0 10 * * *":
            tick(app)
            assert not stored(app, "note").is_paused
            assert call(app, "pause_schedule", "note").is_paused
    resumed = call(app, "resume_schedule", "note")
    assert (resumed.cron, resumed.next_run_at, resumed.is_paused) == ("30 9 * * *", NINE + 1800, False)
    tick(app)
    assert stored(app, "note") == resumed


def test_running_by_hand(noting, clock, call):
    tick(noting)
    clock.advance(40 * 60)
    first, second = (call(noting, "run_schedule", "note") for _ in range(2))
    assert (first.existing, second.existing, second.id) == (False, True, first.id)
    assert (first.scheduled_for, first.key, first.run_at) == (None, "schedule:note", NINE + 2400)
    assert stored(noting, "note").next_run_at == NINE + 3600
    clock.advance(1200)
    tick(noting)  # the firing finds that job still there
    assert [job.id for job in jobs(noting)] == [first.id]
    noting.drain()
    assert noting.ran == [1]


def test_a_name_that_nobody_knows(app, call):
    for verb in ("pause_schedule", "resume_schedule", "run_schedule", "delete_schedule"):
        with pytest.raises(ScheduleNotFoundError, match="no schedule 'nowhere'"):
            call(app, verb, "nowhere")


# --- kept as data -------------------------------------------------------------------------------------------------


@pytest.fixture
def printing(app):
    app.ran = []

    @app.task(name="print", queue="press")
    def print_(copies, *, colour=False):
        app.ran.append((copies, colour))

    return app


def test_a_schedule_made_at_run_time(printing, clock, call):
    made = call(
        printing, "save_schedule", "weekly", task="print", cron="*/30 * * * *", args=[2], kwargs={"colour": True}
    )
    assert (made.source, made.next_run_at, made.timezone) == ("data", NINE + 1800, "UTC")
    clock.advance(1800)
    tick(printing)
    assert [(job.task, job.queue, job.scheduled_for) for job in jobs(printing)] == [("print", "press", NINE + 1800)]
    printing.drain()
    changed = call(printing, "save_schedule", "weekly", task="print", cron="*/30 * * * *", args=[3], queue="other")
    assert changed.next_run_at == NINE + 3600
    call(printing, "run_schedule", "weekly")
    printing.drain()
    assert printing.ran == [(2, True), (3, False)]
    call(printing, "delete_schedule", "weekly")
    clock.advance(3600)
    tick(printing)
    assert (printing.schedules(), len(jobs(printing))) == ([], 2)


@pytest.mark.parametrize(
    ("values", "error", "reason"),
    [
        ({"task": "gone"}, UnknownTaskError, "there is no task 'gone'"),
        ({"cron": "0 0 31 4 *"}, ConfigurationError, r"save_schedule\('x'\): cron .* never fires"),
        ({"timezone": "Nowhere"}, ConfigurationError, "is not known"),
        ({"misfire": "run_all"}, ConfigurationError, "needs overlap=True"),
        ({"args": []}, TypeError, "cannot be called like this: missing"),
        ({"args": [object()]}, SerializationError, "object"),
    ],
)
def test_what_cannot_work_is_not_kept(printing, call, values, error, reason):
    with pytest.raises(error, match=reason):
        call(printing, "save_schedule", "x", **{"task": "print", "cron": "@daily", "args": [1], **values})
    assert printing.schedules() == []


def test_the_name_of_a_declared_schedule_is_taken(noting, call):
    with pytest.raises(ConfigurationError, match="the code declares a schedule 'note'"):
        call(noting, "save_schedule", "note", task="note", cron="@daily")
    with pytest.raises(ConfigurationError, match=r"declared in the code .*test_facade.py.*would bring it back"):
        call(noting, "delete_schedule", "note")


def test_what_the_code_has_dropped_is_deleted_by_hand(make_app, tmp_path, call):
    url = f"sqlite:///{tmp_path}/jobs.db"
    before, after = make_app(url), make_app(url)
    before.task(name="old", cron="@daily")(lambda: None)
    after.task(name="old")(lambda: None)
    tick(before)
    tick(after)
    with pytest.raises(ConfigurationError, match="or once did"):
        call(after, "save_schedule", "old", task="old", cron="@hourly")
    call(after, "delete_schedule", "old")
    assert call(after, "save_schedule", "old", task="old", cron="@hourly").source == "data"


def test_one_that_stopped_itself_goes_on_when_it_is_put_right(printing, clock, call):
    call(printing, "save_schedule", "x", task="print", cron="* * * * *", args=[1])
    store = printing.engine.store.inline()
    finish(store.fire_schedule("x", expected=NINE + 60, next_run_at=NEVER, jobs=[], error="broken"))
    assert call(printing, "pause_schedule", "x").error == "broken"  # it is paused already, and the reason stays
    clock.advance(600)
    put_right = call(printing, "save_schedule", "x", task="print", cron="* * * * *", args=[2])
    assert (put_right.error, put_right.next_run_at) == (None, NINE + 660)
    finish(store.fire_schedule("x", expected=NINE + 660, next_run_at=NEVER, jobs=[], error="broken"))
    resumed = call(printing, "resume_schedule", "x")
    assert (resumed.error, resumed.next_run_at) == (None, NINE + 660)


# --- a scheduler alone --------------------------------------------------------------------------------------------


def test_a_scheduler_without_a_worker(make_app):
    """On the machine's clock: a row that is due already fires at once; `close` ends the scheduler."""
    app = TinyJobs("memory://")
    app.task(name="note")(lambda: None)

    async def run():
        made = await app.asave_schedule("x", task="note", cron="* * * * *")
        await app.store.fire_schedule("x", expected=made.next_run_at, next_run_at=made.next_run_at - 60, jobs=[])
        scheduler = app.scheduler(misfire_grace=120.0)
        task = asyncio.create_task(scheduler.run())
        async with asyncio.timeout(20):
            while not (await app.alist()).jobs:
                await asyncio.sleep(0.005)
        await app.aclose()
        return await task

    report = asyncio.run(run())
    assert (report.fired, report.skipped) == (1, 0)


def test_a_scheduler_that_is_stopped_before_it_runs(app):
    scheduler = app.scheduler()
    scheduler.stop()
    assert asyncio.run(scheduler.run()).fired == 0
