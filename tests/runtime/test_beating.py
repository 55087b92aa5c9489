"""Workers that are seen: they beat while they are there, and are gone when they stop."""

import asyncio
import os
from dataclasses import replace

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.runtime.standalone import StandaloneScheduler
from tinyjobs.version import __version__


class Seeing(Wrapped):
    """A store that keeps its workers in a dict, and all that they told."""

    def __init__(self, store, before=None):
        super().__init__(store, before)
        self.capabilities = replace(store.capabilities, workers_seen=True)
        self.seen: dict[str, WorkerSeen] = {}
        self.told: list[WorkerSeen] = []
        self.refusing: Exception | None = None

    async def beat(self, worker):
        self.calls.append("beat")
        if self.refusing is not None:
            raise self.refusing
        self.told.append(worker)
        self.seen[worker.worker_id] = worker

    async def sign_off(self, worker_id):
        self.calls.append("sign_off")
        self.seen.pop(worker_id, None)


@pytest.fixture
def seeing(make_bench):
    bench = make_bench("file")
    return bench, Seeing(bench.store)


async def _run(worker, meanwhile):
    running = asyncio.create_task(worker.run())
    try:
        await meanwhile()
    finally:
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)


def test_a_worker_is_seen_at_once_with_what_it_is_and_gone_when_it_has_stopped(seeing):
    bench, store = seeing
    worker = bench.worker(store=store, queues=("mail", "slow"), concurrency=3, async_concurrency=7)

    async def look():
        await eventually(lambda: store.seen)
        (seen,) = store.seen.values()
        assert seen.worker_id == worker.worker_id
        assert (seen.pid, seen.version, seen.queues) == (os.getpid(), __version__, ("mail", "slow"))
        assert (seen.threads, seen.coroutines, seen.running) == (3, 7, 0)
        assert seen.scheduled_at is None  # it has no timetable
        assert abs(seen.started_at - bench.clock.now()) < PATIENCE

    asyncio.run(_run(worker, look))
    assert store.seen == {}
    assert store.calls.count("sign_off") == 1


def test_it_beats_again_within_ten_seconds_and_tells_what_it_runs(make_bench):
    clock = FrozenClock()
    bench = make_bench("file", clock=clock)
    store = Seeing(bench.store)
    began, may_end = asyncio.Event(), asyncio.Event()

    async def task():
        began.set()
        await may_end.wait()

    bench.task("task", task)
    bench.put("task")
    # By the same clock, so it would be over before the next beat if it were as short as usual.
    worker = bench.worker(store=store, shutdown_timeout=600.0)

    async def look():
        await began.wait()
        await eventually(lambda: len(store.told) == 1)
        # A second more than ten, for a clock that is moved between a beat and the rest behind it.
        await _advance_until(clock, lambda: len(store.told) == 2, at_most=11.0)
        assert store.told[1].running == 1
        assert store.told[1].started_at == store.told[0].started_at
        worker.stop()
        await _advance_until(clock, lambda: store.told[-1].is_stopping, at_most=11.0)
        assert worker.worker_id in store.seen
        may_end.set()

    asyncio.run(_run(worker, look))
    assert store.seen == {}


async def _advance_until(clock, condition, at_most):
    """Move the clock in steps, and give the loop time to wake; as far as `at_most` seconds and no further."""
    moved = 0.0
    async with asyncio.timeout(PATIENCE):
        while not condition():
            if moved < at_most:
                clock.advance(0.5)
                moved += 0.5
            await asyncio.sleep(0.005)


def test_a_beat_that_fails_is_told_of_once_and_tried_again(seeing, caplog):
    bench, store = seeing
    store.refusing = RuntimeError("odd")
    reported = []
    bench.hooks.on_error.append(lambda loop, error: reported.append(str(error)))
    worker = bench.worker(store=store)

    async def look():
        await eventually(lambda: store.calls.count("beat") >= 3)
        store.refusing = None
        await eventually(lambda: store.seen)
        await eventually(lambda: "noted down again" in caplog.text)

    caplog.set_level("INFO")
    asyncio.run(_run(worker, look))
    assert len([line for line in caplog.messages if "could not be noted down" in line]) == 1
    assert reported.count("odd") >= 3


def test_an_outage_that_beats_meet_is_one_line_with_everybody_elses(seeing, caplog):
    bench, store = seeing
    gone = StoreUnavailableError("gone")
    store.refusing = gone

    def fail(*arguments, **named):
        if store.refusing is not None:
            raise gone

    store.before |= dict.fromkeys(("record", "next_due", "reap_expired", "claim"), fail)
    worker = bench.worker(store=store)

    async def look():
        await eventually(lambda: store.calls.count("beat") >= 3 and store.calls.count("reap_expired") >= 3)
        store.refusing = None
        await eventually(lambda: store.seen)
        await eventually(lambda: "the store answers again" in caplog.text)

    asyncio.run(_run(worker, look))
    assert len([line for line in caplog.messages if "out of reach" in line]) == 1


def test_a_store_that_does_not_answer_keeps_no_worker_from_its_end(seeing):
    bench, store = seeing
    worker = bench.worker(store=store, shutdown_timeout=0.2)
    held = asyncio.Event()

    async def never(worker):
        held.set()
        await asyncio.Event().wait()

    store.beat = never
    asyncio.run(_run(worker, held.wait))


def test_a_beat_under_way_does_not_bring_a_worker_back_that_has_signed_off(seeing):
    bench, store = seeing
    worker = bench.worker(store=store)
    begun, answer = asyncio.Event(), asyncio.Event()
    beat = store.beat

    async def slow(seen):
        begun.set()
        await answer.wait()
        await beat(seen)

    store.beat = slow

    async def look():
        await begun.wait()
        worker.stop()
        asyncio.get_running_loop().call_later(0.05, answer.set)

    asyncio.run(_run(worker, look))
    assert store.told
    assert store.seen == {}


def test_a_store_that_keeps_no_workers_is_told_nothing(make_bench):
    bench = make_bench("memory")
    store = Seeing(bench.store)
    store.capabilities = replace(store.capabilities, workers_seen=False)

    async def look():
        await eventually(lambda: store.calls.count("reap_expired"))

    asyncio.run(_run(bench.worker(store=store), look))
    assert "beat" not in store.calls
    assert "sign_off" not in store.calls


class _NoSchedules:
    default_zone = "UTC"
    unimported: dict[str, BaseException] = {}

    def declared(self):
        return {}

    def problems(self):
        return ()


def test_a_scheduler_tells_when_it_last_made_a_pass(make_bench):
    clock = FrozenClock()
    bench = make_bench("file", clock=clock)
    store = Seeing(bench.store)
    engine = bench.engine(store, timetable=_NoSchedules())
    scheduler = StandaloneScheduler(engine)

    async def look():
        await _advance_until(clock, lambda: store.told and store.told[-1].scheduled_at is not None, at_most=60.0)
        first = store.told[-1]
        assert (first.threads, first.coroutines) == (0, 0)
        await _advance_until(clock, lambda: store.told[-1].scheduled_at > first.scheduled_at, at_most=60.0)

    asyncio.run(_run(scheduler, look))
    assert store.seen == {}


def test_a_worker_with_a_scheduler_tells_of_its_passes(make_bench):
    clock = FrozenClock()
    bench = make_bench("file", clock=clock)
    store = Seeing(bench.store)
    worker = bench.worker(store=store, engine={"timetable": _NoSchedules()})

    async def look():
        await _advance_until(clock, lambda: store.told and store.told[-1].scheduled_at is not None, at_most=60.0)

    asyncio.run(_run(worker, look))


def test_each_run_of_a_worker_is_a_start_of_its_own(make_bench):
    clock = FrozenClock()
    bench = make_bench("file", clock=clock)
    store = Seeing(bench.store)
    worker = bench.worker(store=store)

    async def look():
        await eventually(lambda: store.seen)

    asyncio.run(_run(worker, look))
    clock.advance(100.0)
    asyncio.run(_run(worker, look))
    assert store.told[-1].started_at - store.told[0].started_at == 100.0
    assert finish(bench.store.inline().counts_by_status()) is not None
