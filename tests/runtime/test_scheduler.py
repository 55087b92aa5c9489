"""The scheduler's loop: what it fires and when, by a clock that a test moves, and what it does in trouble."""

import asyncio
import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from tests.runtime.conftest import PATIENCE, Bench, Wrapped, eventually
from tinyjobs.backends.time import StoreTime
from tinyjobs.core.clock import FrozenClock, SystemClock
from tinyjobs.core.cron import NEVER
from tinyjobs.core.errors import DataRefusedError, StoreReplacedError, StoreUnavailableError, UnknownTaskError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job, ScheduleState
from tinyjobs.core.schedules import DATA, Schedule
from tinyjobs.core.signature import CallCheck
from tinyjobs.runtime.scheduler import Scheduler

NINE = datetime(2026, 6, 1, 9, 0, tzinfo=UTC).timestamp()


class Table:
    """A timetable over a bench's tasks."""

    default_zone = "UTC"

    def __init__(self, bench: Bench, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self.bench = bench
        self.entries = {
            name: Schedule.parse(name, {"task": "note", **entry}, f"schedules[{name!r}]", "UTC")
            for name, entry in entries.items()
        }

    def declared(self) -> Mapping[str, Schedule]:
        return self.entries

    def problems(self) -> list[str]:
        return []

    def job(self, schedule: Schedule) -> Job:
        spec = self.bench.tasks.get(schedule.task)
        if spec is None:
            raise UnknownTaskError(f"there is no task {schedule.task!r}")
        CallCheck(spec.name, spec.call)(schedule.args, schedule.kwargs)
        payload = self.bench.codecs.get("json").encode_call(schedule.args, schedule.kwargs)
        options = spec.options
        return replace(
            self.bench.job(spec.name),
            payload=payload,
            queue=schedule.queue or options.queue,
            priority=options.priority if schedule.priority is None else schedule.priority,
        )


class Ticking:
    """Schedulers over one bench, and a clock that stands at nine until it is moved."""

    def __init__(self, bench: Bench, clock: FrozenClock) -> None:
        self.bench = bench
        self.clock = clock
        self.ran: list[Any] = []
        bench.task("note", lambda *args: self.ran.append(args))

    def scheduler(self, store: Any = None, *, grace: float = 60.0, **entries: Any) -> Scheduler:
        made = {
            name.replace("_", "."): entry if isinstance(entry, dict) else {"cron": entry}
            for name, entry in entries.items()
        }
        table = Table(self.bench, made)
        return Scheduler(self.bench.engine(store, timetable=table), table, grace)

    def tick(self, scheduler: Scheduler) -> float:
        """Passes until nothing is left to do; how long it would sleep."""
        for _ in range(500):
            seconds = asyncio.run(scheduler.tick())
            if seconds:
                return seconds
        raise AssertionError("it never comes to rest")

    def states(self) -> dict[str, ScheduleState]:
        return {state.name: state for state in finish(self.bench.store.inline().schedules())}

    def jobs(self) -> list[Job]:
        return finish(self.bench.store.inline().list(limit=1_000)).jobs[::-1]

    def times(self) -> list[str]:
        """The instants that the jobs stand for, oldest job first."""
        return [shown(job.scheduled_for) for job in self.jobs()]

    def next(self, name: str = "s") -> str:
        return shown(self.states()[name].next_run_at)

    def succeed(self) -> None:
        self.bench.run()

    def save(self, name: str, **values: Any) -> None:
        values = {"task": "note", "cron": "* * * * *", "timezone": "UTC", "next_run_at": NINE + 60, **values}
        assert finish(self.bench.store.inline().save_schedule(ScheduleState(name=name, source=DATA, **values)))


def shown(instant: float | None) -> str:
    assert instant is not None
    return "never" if instant == NEVER else f"{datetime.fromtimestamp(instant, UTC):%d %H:%M}"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NINE)


@pytest.fixture
def ticking(make_bench, clock) -> Ticking:
    return Ticking(make_bench("memory", clock=clock), clock)


# --- firing on time -----------------------------------------------------------------------------------------------


def test_a_new_schedule_begins_at_its_next_time(ticking):
    """Nothing is made at the first look, whatever the time of the day."""
    scheduler = ticking.scheduler(s="0 8 * * *")
    ticking.tick(scheduler)
    assert (ticking.jobs(), ticking.next()) == ([], "02 08:00")
    ticking.clock.advance(23 * 3600)
    ticking.tick(scheduler)
    assert (ticking.times(), ticking.next()) == (["02 08:00"], "03 08:00")


def test_a_job_knows_what_it_stands_for(ticking):
    scheduler = ticking.scheduler(s={"cron": "*/5 * * * *", "args": [1, "two"], "queue": "mail", "priority": 7})
    ticking.tick(scheduler)
    ticking.clock.advance(300.5)
    ticking.tick(scheduler)
    (job,) = ticking.jobs()
    assert (job.scheduled_for, job.run_at, job.created_at) == (NINE + 300, NINE + 300, NINE + 300.5)
    assert (job.task, job.queue, job.priority, job.key) == ("note", "mail", 7, "schedule:s")
    state = ticking.states()["s"]
    assert (state.last_run_at, state.last_job_id) == (NINE + 300.5, job.id)
    ticking.succeed()
    assert ticking.ran == [(1, "two")]


def test_it_sleeps_until_the_earliest_firing_and_half_a_minute_at_most(ticking):
    scheduler = ticking.scheduler(a="10 9 * * *", b="1 9 * * *")
    assert ticking.tick(scheduler) == 30.0
    ticking.clock.advance(45.25)
    assert ticking.tick(scheduler) == pytest.approx(14.75)
    ticking.clock.advance(14.75)
    ticking.tick(scheduler)
    assert ticking.times() == ["01 09:01"]


def test_a_short_grace_is_looked_after_more_often(ticking):
    assert ticking.tick(ticking.scheduler(grace=10.0, s="0 8 * * *")) == 5.0


def test_each_in_its_own_zone(make_bench):
    """Zones ahead of and behind that of others: one firing a day each, at the right hour there."""
    clock = FrozenClock(datetime(2026, 6, 1, 0, 0, tzinfo=UTC).timestamp())
    ticking = Ticking(make_bench("memory", clock=clock), clock)
    scheduler = ticking.scheduler(
        a={"cron": "0 9 * * *", "timezone": "America/New_York", "overlap": True},
        b={"cron": "0 9 * * *", "timezone": "Pacific/Auckland", "overlap": True},
    )
    ticking.tick(scheduler)
    for _ in range(48 * 12):
        clock.advance(300)
        ticking.tick(scheduler)
    assert ticking.times() == ["01 13:00", "01 21:00", "02 13:00", "02 21:00"]


def test_no_schedules_at_all(ticking):
    assert ticking.tick(ticking.scheduler()) == 30.0


# --- registration -------------------------------------------------------------------------------------------------


def test_a_restart_goes_on_where_it_stopped(ticking):
    ticking.tick(ticking.scheduler(s="*/15 * * * *"))
    ticking.clock.advance(14 * 60)  # and it is killed a minute before
    other = ticking.scheduler(s="*/15 * * * *")
    ticking.tick(other)
    ticking.clock.advance(65)
    ticking.tick(other)
    assert ticking.times() == ["01 09:15"]


def test_a_changed_rule_starts_anew_and_fires_nothing(ticking):
    ticking.tick(ticking.scheduler(s="5 9 * * *"))
    ticking.clock.advance(3600)
    ticking.tick(ticking.scheduler(s="0 9 * * *"))
    assert (ticking.jobs(), ticking.next()) == ([], "02 09:00")


def test_adding_and_editing_others_fires_nothing_again(ticking):
    ticking.tick(ticking.scheduler(a="* * * * *", b="* * * * *"))
    ticking.clock.advance(61)
    ticking.tick(ticking.scheduler(a="* * * * *", b="* * * * *"))
    ticking.succeed()
    assert len(ticking.jobs()) == 2
    ticking.tick(ticking.scheduler(a={"cron": "* * * * *", "priority": 3}, b="* * * * *", c="* * * * *"))
    assert len(ticking.jobs()) == 2
    assert ticking.states()["a"].priority == 3


def test_a_restart_that_changes_nothing_writes_nothing(ticking):
    ticking.tick(ticking.scheduler(s={"cron": "0 8 * * *", "args": [1]}))
    store = Wrapped(ticking.bench.store)
    ticking.tick(ticking.scheduler(store, s={"cron": "0 8 * * *", "args": [1]}))
    assert store.calls == ["present", "schedules"]


def test_what_is_declared_after_the_start_is_registered_too(ticking):
    """Also over what the store has of it from before."""
    ticking.tick(ticking.scheduler(early="0 8 * * *", late="0 8 * * *"))
    scheduler = ticking.scheduler(early="0 8 * * *")
    ticking.tick(scheduler)
    scheduler._timetable.entries |= Table(ticking.bench, {"late": {"cron": "0 7 * * *"}}).entries
    ticking.tick(scheduler)
    assert (ticking.next("early"), ticking.next("late")) == ("02 08:00", "02 07:00")


def test_what_was_deleted_while_it_runs_is_registered_again(ticking):
    scheduler = ticking.scheduler(s="0 8 * * *")
    ticking.tick(scheduler)
    finish(ticking.bench.store.inline().delete_schedule("s"))
    ticking.tick(scheduler)
    assert ticking.next() == "02 08:00"


def test_what_the_code_declares_no_more_is_kept_and_does_not_fire(ticking):
    ticking.tick(ticking.scheduler(old="* * * * *"))
    ticking.clock.advance(600)
    assert ticking.tick(ticking.scheduler()) == 30.0
    assert (ticking.jobs(), ticking.next("old")) == ([], "01 09:01")
    ticking.clock.advance(30)
    scheduler = ticking.scheduler(old="* * * * *")
    ticking.tick(scheduler)  # and back again: by the misfire rule
    assert ticking.times() == ["01 09:10"]


def test_during_a_deploy_the_old_code_follows_the_new_rule(ticking):
    """It would otherwise take the new next time for that of a clock that has stepped back, and fire by its own."""
    old = ticking.scheduler(s="* * * * *")
    ticking.tick(old)
    ticking.tick(ticking.scheduler(s="0 8 * * *"))
    for _ in range(5):
        ticking.clock.advance(60)
        ticking.tick(old)
    assert (ticking.jobs(), ticking.next()) == ([], "02 08:00")


# --- misfires, clocks, overlap ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [("skip", []), ("run_once", ["01 10:45"]), ("run_all", ["01 09:15", "01 09:30", "01 09:45", "01 10:00"])],
)
def test_missed_firings(ticking, misfire, expected):
    entry = {"cron": "*/15 * * * *", "misfire": misfire, "overlap": True}
    ticking.tick(ticking.scheduler(s=entry))
    ticking.clock.advance(118 * 60)
    ticking.tick(ticking.scheduler(s=entry))
    assert ticking.times()[:4] == expected
    assert len(ticking.jobs()) == {"skip": 0, "run_once": 1, "run_all": 7}[misfire]
    assert ticking.next() == "01 11:00"


def test_what_was_missed_is_told_in_the_time_of_the_schedule(ticking, caplog):
    caplog.set_level(logging.INFO)
    scheduler = ticking.scheduler(s={"cron": "30 11 * * *", "timezone": "Europe/Rome"})
    ticking.tick(scheduler)
    ticking.clock.advance(5 * 3_600)
    ticking.tick(scheduler)
    assert caplog.messages == ["the schedule 's' missed firings since 2026-06-01 11:30:00+02:00; they are skipped"]


def test_a_long_outage_is_worked_off_a_hundred_at_a_time(ticking):
    entry = {"cron": "* * * * *", "misfire": "run_all", "overlap": True}
    ticking.tick(ticking.scheduler(s=entry))
    ticking.clock.advance(250 * 60)
    scheduler = ticking.scheduler(s=entry)
    made = []
    while asyncio.run(scheduler.tick()) == 0.0:
        made.append(len(ticking.jobs()))
    assert made == [100, 200, 250]
    times = [job.scheduled_for for job in ticking.jobs()]
    assert times == [NINE + 60 * minute for minute in range(1, 251)]
    assert [job.run_at for job in ticking.jobs()] == times


def test_many_long_outages_are_not_worked_off_in_one_transaction(ticking):
    entries = {f"s{number}": {"cron": "* * * * *", "misfire": "run_all", "overlap": True} for number in range(7)}
    ticking.tick(ticking.scheduler(**entries))
    ticking.clock.advance(100 * 60)
    sizes: list[int] = []
    store = Wrapped(ticking.bench.store)
    store.before["fire_schedules"] = lambda moves: sizes.append(sum(len(move.jobs) for move in moves))
    ticking.tick(ticking.scheduler(store, **entries))
    assert sizes == [200, 200, 200, 100]


def test_within_the_grace_a_firing_is_on_time(ticking, caplog):
    caplog.set_level(logging.INFO, "tinyjobs.scheduler")
    ticking.tick(ticking.scheduler(s="0 10 * * *"))
    ticking.clock.advance(3600 + 60)
    ticking.tick(ticking.scheduler(s="0 10 * * *"))
    assert (ticking.times(), caplog.messages) == (["01 10:00"], [])


def test_a_clock_that_stepped_back(ticking, caplog):
    """A time too far ahead is that of a clock that ran ahead: it moves, and nothing fires."""
    caplog.set_level(logging.INFO, "tinyjobs.scheduler")
    ticking.clock.advance(3600)
    ticking.tick(ticking.scheduler(s="*/10 * * * *"))
    assert ticking.next() == "01 10:10"
    store = copy(ticking.bench.store)
    store.clock = FrozenClock(NINE + 60)
    store.time = StoreTime(store.clock)
    back = Ticking(Bench(store, store.clock), store.clock)
    back.tick(back.scheduler(s="*/10 * * * *"))
    assert (back.next(), back.jobs()) == ("01 09:10", [])
    assert "stepped back" in caplog.text


def test_no_second_job_beside_an_active_one(ticking, caplog):
    """Queued, running or waiting for its next attempt: the firing is counted, and logged below what people read."""
    caplog.set_level(logging.INFO, "tinyjobs.scheduler")
    scheduler = ticking.scheduler(s="* * * * *")
    ticking.tick(scheduler)
    for _ in range(3):
        ticking.clock.advance(60)
        ticking.tick(scheduler)
    assert (ticking.times(), scheduler.fired, scheduler.skipped) == (["01 09:01"], 1, 2)
    state = ticking.states()["s"]
    assert (state.skips, state.last_run_at, shown(state.next_run_at)) == (2, NINE + 60, "01 09:04")
    assert caplog.messages == []
    ticking.succeed()
    ticking.clock.advance(60)
    ticking.tick(scheduler)
    assert ticking.times() == ["01 09:01", "01 09:04"]


def test_a_retrying_job_holds_off_the_next(ticking):
    def fail() -> None:
        raise ValueError("no")

    ticking.bench.task("fail", fail, max_attempts=2, retry_base=150.0, retry_jitter=False)
    scheduler = ticking.scheduler(s={"cron": "* * * * *", "task": "fail"})
    ticking.tick(scheduler)
    for _ in range(3):
        ticking.clock.advance(60)
        ticking.tick(scheduler)
        ticking.succeed()
    assert [job.attempts for job in ticking.jobs()] == [1]
    ticking.clock.advance(60)
    ticking.succeed()  # its second attempt, the last one
    ticking.tick(scheduler)
    assert ticking.times() == ["01 09:01", "01 09:04"]


def test_with_overlap_every_firing_makes_a_job(ticking):
    scheduler = ticking.scheduler(s={"cron": "* * * * *", "overlap": True})
    ticking.tick(scheduler)
    for _ in range(3):
        ticking.clock.advance(60)
        ticking.tick(scheduler)
    assert ticking.times() == ["01 09:01", "01 09:02", "01 09:03"]
    assert {job.key for job in ticking.jobs()} == {None}


def test_a_paused_schedule_is_left_alone(ticking):
    scheduler = ticking.scheduler(s="* * * * *")
    ticking.tick(scheduler)
    store = ticking.bench.store.inline()
    finish(store.fire_schedule("s", expected=NINE + 60, next_run_at=NEVER, jobs=[]))
    for _ in range(3):
        ticking.clock.advance(600)
        ticking.tick(scheduler)
    ticking.tick(ticking.scheduler(s="* * * * *"))  # a restart
    assert (ticking.jobs(), ticking.next()) == ([], "never")
    ticking.tick(ticking.scheduler(s="*/5 * * * *"))  # another rule
    assert ticking.next() == "01 09:35"


# --- kept as data -------------------------------------------------------------------------------------------------


def test_a_row_fires_by_what_it_says(ticking):
    payload = ticking.bench.codecs.get("json").encode_call((1,), {})
    ticking.save("row", payload=payload, queue="mail", overlap=True)
    scheduler = ticking.scheduler()
    ticking.tick(scheduler)
    ticking.clock.advance(60)
    ticking.tick(scheduler)
    (job,) = ticking.jobs()
    assert (job.task, job.queue, job.scheduled_for, job.key) == ("note", "mail", NINE + 60, None)
    ticking.save("row", payload=payload, queue="other", overlap=True)  # seen at the next look
    ticking.clock.advance(60)
    ticking.tick(scheduler)
    assert [job.queue for job in ticking.jobs()] == ["mail", "other"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"cron": "0 0 31 2 *"}, "never fires"),
        ({"cron": "nonsense"}, "instead of five"),
        ({"timezone": "Mars/Base"}, "is not known"),
        ({"misfire": "sometimes"}, "is no policy"),
        ({"misfire": "run_all"}, "needs overlap=True"),
        ({"payload": b"\xff"}, "SerializationError"),
        ({"payload": b"{}", "codec": "nowhere"}, "nowhere"),
        ({"queue": "a,b"}, "is no queue name"),
    ],
)
def test_a_row_that_cannot_work_stops_itself_and_says_why(ticking, caplog, values, reason):
    ticking.save("bad", **values)
    ticking.save("good")
    scheduler = ticking.scheduler()
    ticking.clock.advance(60)
    for _ in range(3):
        ticking.tick(scheduler)
    states = ticking.states()
    assert states["bad"].next_run_at == NEVER
    assert reason in states["bad"].error
    assert [job.key for job in ticking.jobs()] == ["schedule:good"]
    told = [record for record in caplog.records if "stopped itself" in record.message]
    assert len(told) == 1 and reason in caplog.text


def test_a_row_whose_arguments_do_not_fit_stops_itself(ticking):
    ticking.bench.task("picky", lambda number: None)
    ticking.save("bad", task="picky")
    ticking.clock.advance(60)
    ticking.tick(ticking.scheduler())
    assert "cannot be called like this" in ticking.states()["bad"].error


def test_a_row_whose_task_is_unknown_is_left_to_others_first(ticking, caplog):
    """In a deploy another process knows it; one that nobody fires within a minute stops itself."""
    ticking.save("row", task="newer")
    ticking.save("good", overlap=True)
    scheduler = ticking.scheduler()
    ticking.clock.advance(60)
    for _ in range(3):
        ticking.tick(scheduler)
    assert (ticking.next("row"), len(ticking.jobs())) == ("01 09:01", 1)
    assert len([record for record in caplog.records if "no task 'newer'" in record.message]) == 1
    ticking.clock.advance(30)
    ticking.tick(scheduler)
    assert ticking.states()["row"].error is None
    ticking.clock.advance(30)
    ticking.tick(scheduler)
    state = ticking.states()["row"]
    assert (state.next_run_at, "newer" in state.error) == (NEVER, True)
    assert [job.scheduled_for - NINE for job in ticking.jobs()] == [60, 120]


def test_code_wins_over_a_row_of_its_name_and_says_so(ticking, caplog):
    ticking.save("s", cron="0 8 * * *", next_run_at=NINE + 82_800)
    ticking.tick(ticking.scheduler(s="0 7 * * *"))
    state = ticking.states()["s"]
    assert (state.source, state.cron, shown(state.next_run_at)) == ("code", "0 7 * * *", "02 07:00")
    assert "wins over the one kept as data" in caplog.text


# --- together -----------------------------------------------------------------------------------------------------


def test_losers_are_silent(make_bench, clock, caplog):
    """Four schedulers on one file, in step: each firing makes one job, and nobody speaks of it."""
    caplog.set_level(logging.INFO)
    benches = [Ticking(make_bench("file", clock=clock), clock) for _ in range(4)]
    entries = {f"s{number}": {"cron": "* * * * *", "overlap": True} for number in range(20)}

    async def race() -> None:
        schedulers = [bench.scheduler(**entries) for bench in benches]

        async def settle(scheduler: Scheduler) -> None:
            while await scheduler.tick() == 0.0:
                pass

        for _ in range(6):
            await asyncio.gather(*map(settle, schedulers))
            clock.advance(60)
        assert sum(scheduler.fired for scheduler in schedulers) == 5 * 20

    asyncio.run(race())
    made = [(job.scheduled_for, job.id) for job in benches[0].jobs()]
    assert len(made) == 100
    assert caplog.messages == []


def test_many_at_once_are_shared_in_batches(make_bench, clock):
    benches = [Ticking(make_bench("file", clock=clock, random=Random(number)), clock) for number in range(3)]
    entries = {f"s{number:04}": {"cron": "* * * * *", "overlap": True} for number in range(900)}

    async def race() -> list[int]:
        schedulers = [bench.scheduler(**entries) for bench in benches]
        await schedulers[0].tick()
        clock.advance(60)

        async def settle(scheduler: Scheduler) -> None:
            while await scheduler.tick() == 0.0:
                pass

        await asyncio.gather(*map(settle, schedulers))
        return [scheduler.fired for scheduler in schedulers]

    shares = asyncio.run(race())
    assert sum(shares) == 900
    assert finish(benches[0].bench.store.inline().counts_by_status())["queued"] == 900


def test_what_somebody_else_holds_is_not_asked_for_at_full_speed(ticking):
    """As where a transaction that paused it stays open: Postgres answers at once that another was first."""
    held = ["s"]

    class Held(Wrapped):
        async def fire_schedules(self, moves: Any) -> Any:
            return [None] * len(moves) if held else await self._store.fire_schedules(moves)

    scheduler = ticking.scheduler(Held(ticking.bench.store), s="* * * * *")
    asyncio.run(scheduler.tick())
    ticking.clock.advance(60)
    waits = [asyncio.run(scheduler.tick()) for _ in range(20)]
    assert 0 < waits[0] < 0.05
    assert waits == sorted(waits)
    assert waits[-1] == 0.5
    held.clear()
    assert asyncio.run(scheduler.tick()) == 0.0
    assert ticking.times() == ["01 09:01"]
    assert asyncio.run(scheduler.tick()) > 1
    held.append("s")
    ticking.clock.advance(60)
    assert asyncio.run(scheduler.tick()) == waits[0]


# --- trouble ------------------------------------------------------------------------------------------------------


def test_it_survives_an_outage_and_says_so_once(ticking, caplog):
    caplog.set_level(logging.INFO)
    store = Wrapped(ticking.bench.store)
    errors: list[tuple[str, BaseException]] = []
    ticking.bench.hooks.on_error.append(lambda loop, error: errors.append((loop, error)))

    def down(*args: Any) -> None:
        raise StoreUnavailableError("the server is gone")

    async def run() -> None:
        scheduler = ticking.scheduler(store, s="* * * * *")
        task = asyncio.create_task(scheduler.run())
        await eventually(lambda: ticking.states())
        store.before["present"] = down
        for _ in range(40):
            ticking.clock.advance(4.0)
            await asyncio.sleep(0.005)
        assert len(errors) > 5 and {loop for loop, _ in errors} == {"scheduler"}
        del store.before["present"]
        await eventually(lambda: (ticking.clock.advance(4.0), ticking.jobs())[1])
        await eventually(lambda: (ticking.clock.advance(4.0), "the store answers again" in caplog.messages)[1])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    first = [record for record in caplog.records if "the store is out of reach, trying again" in record.message]
    assert [record.levelname for record in first] == ["WARNING"]
    assert {record.levelname for record in caplog.records if "still cannot" in record.message} == {"ERROR"}
    assert len([record for record in caplog.records if "still cannot" in record.message]) in (1, 2)
    assert caplog.messages.count("the store answers again") == 1


def test_a_connection_that_has_died_since_is_no_outage(ticking, caplog):
    caplog.set_level(logging.INFO)
    store = Wrapped(ticking.bench.store)

    def once(*args: Any) -> None:
        del store.before["present"]
        raise StoreUnavailableError("the connection is gone")

    async def run() -> None:
        store.before["present"] = once
        task = asyncio.create_task(ticking.scheduler(store, s="* * * * *").run())
        await eventually(lambda: (ticking.clock.advance(0.25), ticking.states())[1])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert caplog.messages == []


def test_data_that_the_store_refuses_stops_that_schedule_alone(ticking):
    ticking.save("bad", queue="poison", overlap=True)
    ticking.save("good", overlap=True)
    store = Wrapped(ticking.bench.store)

    def refuse(moves: Any) -> None:
        if any(job.queue == "poison" for move in moves for job in move.jobs):
            raise DataRefusedError("no such text")

    store.before["fire_schedules"] = refuse
    ticking.clock.advance(60)
    ticking.tick(ticking.scheduler(store))
    assert [job.queue for job in ticking.jobs()] == ["default"]
    assert "no such text" in ticking.states()["bad"].error


def test_a_declared_schedule_that_fails_here_is_left_alone_for_a_minute(ticking, caplog):
    """It does not stop itself: the code of another process may be able to."""
    scheduler = ticking.scheduler(bad={"cron": "* * * * *", "queue": "b"}, good={"cron": "* * * * *", "overlap": True})
    ticking.tick(scheduler)
    make = scheduler._timetable.job

    def refuse(schedule: Schedule) -> Job:
        if schedule.name == "bad":
            raise ValueError("not here")
        return make(schedule)

    scheduler._timetable.job = refuse  # type: ignore[method-assign]
    for _ in range(4):
        ticking.clock.advance(30)
        for _ in range(3):
            ticking.tick(scheduler)
    assert [job.queue for job in ticking.jobs()] == ["default", "default"]
    assert (ticking.next("bad"), ticking.states()["bad"].error) == ("01 09:01", None)
    assert caplog.messages.count("the schedule 'bad' cannot be fired: ValueError: not here") == 2


def test_a_missing_index_is_told_of_loudly_and_again(make_bench, tmp_path, clock, caplog):
    """Nobody may find out after days that nothing has been fired."""
    ticking = Ticking(make_bench("file", clock=clock), clock)
    ticking.tick(ticking.scheduler(s="* * * * *"))
    index = "CREATE UNIQUE INDEX tinyjobs_jobs_key ON tinyjobs_jobs (active_key) WHERE active_key IS NOT NULL"
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        connection.execute("DROP INDEX tinyjobs_jobs_key")

    async def run() -> None:
        task = asyncio.create_task(ticking.scheduler(s="* * * * *").run())
        clock.advance(60)
        await eventually(lambda: len(caplog.records) == 1 or clock.advance(1))
        await eventually(lambda: len(caplog.records) == 3 or clock.advance(4))
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
            connection.execute(index)
        await eventually(lambda: ticking.jobs() or clock.advance(4))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    assert "ON CONFLICT" in caplog.text


def test_a_stop_lets_the_firing_under_way_end(ticking):
    """Else it would be in the store, and in no report and no log."""
    store = Wrapped(ticking.bench.store)

    async def run() -> None:
        scheduler = ticking.scheduler(store, s="* * * * *")
        await scheduler.tick()
        ticking.clock.advance(60)
        writes, go_on = asyncio.Event(), asyncio.Event()

        async def hold(answer: Any) -> None:
            writes.set()
            await go_on.wait()

        store.after["fire_schedules"] = hold
        task = asyncio.create_task(scheduler.run())
        await writes.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert scheduler.fired == 1

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_stop_does_not_begin_another_batch(ticking):
    store = Wrapped(ticking.bench.store)

    async def run() -> int:
        scheduler = ticking.scheduler(store, **{f"s{number:03}": {"cron": "* * * * *"} for number in range(450)})
        await scheduler.tick()
        ticking.clock.advance(60)
        task = asyncio.create_task(scheduler.run())

        async def stop(answer: Any) -> None:
            if not task.cancelling():
                task.cancel()
            await asyncio.sleep(0)

        store.after["fire_schedules"] = stop
        await asyncio.gather(task, return_exceptions=True)
        return scheduler.fired

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == 200


def test_one_that_others_have_fired_meanwhile_is_tried_again(ticking):
    scheduler = ticking.scheduler(s="* * * * *")
    ticking.tick(scheduler)
    make = scheduler._timetable.job

    def refuse(schedule: Schedule) -> Job:
        raise ValueError("not now")

    scheduler._timetable.job = refuse  # type: ignore[method-assign]
    ticking.clock.advance(90)
    ticking.tick(scheduler)
    store = ticking.bench.store.inline()
    assert finish(store.fire_schedule("s", expected=NINE + 60, next_run_at=NINE + 120, jobs=[])) == []
    scheduler._timetable.job = make  # type: ignore[method-assign]
    ticking.clock.advance(30)
    ticking.tick(scheduler)
    assert ticking.times() == ["01 09:02"]


def test_what_no_pass_can_mend_ends_it(ticking):
    store = Wrapped(ticking.bench.store)

    def gone(*args: Any) -> None:
        raise StoreReplacedError("another file stands there")

    store.before["schedules"] = gone
    with pytest.raises(StoreReplacedError):
        asyncio.run(asyncio.wait_for(ticking.scheduler(store, s="* * * * *").run(), PATIENCE))


def test_a_worker_fires_and_runs_them(make_bench):
    """On the machine's clock, with a schedule that is due since just now."""
    bench = make_bench("file", clock=SystemClock())
    ticking = Ticking(bench, SystemClock())  # type: ignore[arg-type]
    ticking.save("row", next_run_at=SystemClock().now() - 1)
    table = Table(bench, {})

    async def run() -> None:
        worker = bench.worker(engine={"timetable": table})
        task = asyncio.create_task(worker.run())
        await eventually(lambda: ticking.ran)
        worker.stop()
        await task

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert ticking.ran == [()]


@pytest.mark.parametrize("settings", [{"scheduler": False}, {"until_empty": True}])
def test_a_worker_that_is_not_to_fire_does_not(make_bench, settings):
    bench = make_bench("memory")
    ticking = Ticking(bench, SystemClock())  # type: ignore[arg-type]
    ticking.save("row", next_run_at=SystemClock().now() - 1)
    bench.put("note")
    store = Wrapped(bench.store)

    async def run() -> None:
        worker = bench.worker(store=store, engine={"timetable": Table(bench, {})}, **settings)
        task = asyncio.create_task(worker.run())
        await eventually(lambda: ticking.ran)
        worker.stop()
        await task

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert "schedules" not in store.calls
