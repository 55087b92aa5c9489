"""A store in trouble: every loop goes on, says so once when it begins and once when it is over, and stops at once."""

import asyncio
import logging

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import StoreBusyError, StoreReplacedError, StoreUnavailableError
from tinyjobs.runtime.outage import Outage

TROUBLE = {
    "busy": StoreBusyError("locked"),
    "away": StoreUnavailableError("gone"),
    "unexpected": RuntimeError("nobody thought of this"),
    "base of ours": TypeError("an argument of the driver"),
}


@pytest.fixture(params=TROUBLE)
def trouble(request):
    return TROUBLE[request.param]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """The trouble of these tests is over within moments."""
    from tinyjobs.core.trouble import Backoff

    real = Backoff.failed
    monkeypatch.setattr(Backoff, "failed", lambda backoff: min(real(backoff), 0.02))


def raising(error):
    def fail(*arguments, **options):
        raise error

    return fail


def lines(caplog, level=logging.INFO):
    return [(record.name, record.levelname) for record in caplog.records if record.levelno >= level]


OUTAGE = ("the store is out of reach, trying again", "the store answers again")
LOOPS = {
    "record": ("worker", "the store cannot be written, trying again", "the store can be written again"),
    "next_due": ("worker", "the store cannot be read, trying again", "the store can be read again"),
    "stats": ("worker", "the store cannot be read, trying again", "the store can be read again"),
    "reap_expired": ("upkeep", "expired leases could not be looked for", "expired leases are looked for again"),
    "wait_for_jobs": ("listener", "wake-ups do not arrive", "wake-ups arrive again"),
}


@pytest.mark.parametrize("verb", LOOPS)
def test_a_verb_that_fails_for_a_while_costs_two_lines_and_nothing_else(bench, verb, trouble, caplog):
    name, begins, ends = LOOPS[verb]
    if isinstance(trouble, StoreUnavailableError) and verb != "wait_for_jobs":
        begins, ends = OUTAGE
        if verb in ("next_due", "stats"):
            pytest.skip("a store that takes writes and no reads is not out of reach; see the test of a whole outage")
    told = []
    bench.hooks.on_error.append(lambda loop, error: told.append((loop, error)))
    store = Wrapped(bench.store)
    gates = [asyncio.Event() for _ in range(3)]

    async def wait(number):
        await gates[number].wait()

    bench.task("wait", wait)
    bench.task("note", lambda: None)
    jobs = bench.put_many("wait", 3)

    async def main():
        worker = bench.worker(store=store, reap_interval=0.02, poll=0.02, until_empty=verb == "stats")
        running = asyncio.create_task(worker.run())
        await eventually(lambda: worker._parts and len(worker._parts.coroutines.running()) == 3)
        store.before[verb] = raising(trouble)
        for gate in gates[:2]:
            gate.set()
        if verb == "stats":
            gates[2].set()
        bench.store.nudge()
        await eventually(lambda: len(told) >= 5)
        assert not running.done()
        store.before.clear()
        later = bench.put("note")
        gates[2].set()
        await eventually(lambda: bench.status(*jobs, later) == ["success"] * 4)
        await eventually(lambda: ends in caplog.text)
        worker.stop()
        return await asyncio.wait_for(running, PATIENCE)

    with caplog.at_level(logging.INFO, "tinyjobs"):
        report = asyncio.run(main())
    assert report.succeeded == 4
    assert {(loop, type(error)) for loop, error in told} == {(name, type(trouble))}
    assert caplog.text.count(begins) == 1
    assert caplog.text.count(ends) == 1
    assert {bench.get(job).attempts for job in jobs} == {1}


def test_what_fails_again_within_a_moment_is_the_same_outage(caplog):
    """As when a server ends its sessions one after the other, while others connect already."""
    clock = FrozenClock()
    outage = Outage(clock)
    gone = StoreUnavailableError("gone")
    with caplog.at_level(logging.WARNING, "tinyjobs"):
        for loop in ("read", "written", "read"):
            assert outage.met(loop, gone)
            assert outage.over(loop)
            clock.advance(0.4)
        clock.advance(0.2)
        assert len(caplog.records) == 1 and outage.is_under_way
        assert not outage.over("written")
        assert not outage.met("read", StoreBusyError("locked"))
        assert not outage.is_under_way
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == list(OUTAGE)


@pytest.mark.parametrize("is_idle", [True, False])
def test_an_outage_that_every_loop_meets_costs_two_lines_in_all(bench, caplog, is_idle):
    """Whichever loop is first says so, and whichever is last that it is over."""
    loops = {"worker", "upkeep", "listener"} if is_idle else {"worker", "upkeep", "leases"}
    told = []
    bench.hooks.on_error.append(lambda loop, error: told.append(loop))
    store = Wrapped(bench.store)
    gates = [asyncio.Event() for _ in range(2)]

    async def wait(number):
        await gates[number].wait()

    bench.task("wait", wait)
    jobs = [] if is_idle else bench.put_many("wait", 2)

    async def main():
        worker = bench.worker(store=store, reap_interval=0.02, poll=0.02, lease=1.0)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: worker._parts and len(worker._parts.coroutines.running()) == len(jobs))
        await eventually(lambda: "wait_for_jobs" in store.calls if is_idle else worker._parts)
        gone = raising(StoreUnavailableError("gone"))
        store.before.update(dict.fromkeys(["record", "next_due", "reap_expired", "wait_for_jobs", "heartbeat"], gone))
        bench.store.nudge()
        gates[0].set()
        await eventually(lambda: loops <= set(told) and len(told) > 20)
        store.before.clear()
        gates[1].set()
        await eventually(lambda: bench.status(*jobs) == ["success"] * len(jobs) and OUTAGE[1] in caplog.text)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)

    with caplog.at_level(logging.WARNING, "tinyjobs"):
        asyncio.run(main())
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == list(OUTAGE)


@pytest.mark.parametrize("verbs", [("record",), ("next_due",), ("record", "next_due", "reap_expired", "wait_for_jobs")])
def test_a_stop_during_trouble_ends_the_worker(bench, verbs, trouble):
    store = Wrapped(bench.store)
    bench.task("note", lambda: None)

    async def main():
        worker = bench.worker(store=store, poll=0.02, shutdown_timeout=1.0)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: "next_due" in store.calls)
        for verb in verbs:
            store.before[verb] = raising(trouble)
        bench.put("note")
        await asyncio.sleep(0.1)
        worker.stop()
        return await asyncio.wait_for(running, PATIENCE)

    assert asyncio.run(main()).failed == 0


def test_a_stop_cuts_a_long_pause_short(make_bench, monkeypatch):
    """Between two tries of a store that is away a worker may wait for seconds; a stop must not wait along."""
    from tinyjobs.core.trouble import Backoff

    monkeypatch.setattr(Backoff, "failed", lambda backoff: 3_600.0)
    bench = make_bench()
    store = Wrapped(bench.store, {"record": raising(StoreUnavailableError("gone"))})
    told = asyncio.Event()
    bench.hooks.on_error.append(lambda loop, error: told.set())

    async def main():
        worker = bench.worker(store=store)
        running = asyncio.create_task(worker.run())
        await asyncio.wait_for(told.wait(), PATIENCE)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())


def test_outcomes_that_cannot_be_recorded_at_the_end_are_given_up_and_told_of(bench, trouble, caplog):
    store = Wrapped(bench.store)
    begun = asyncio.Event()

    async def note():
        begun.set()

    bench.task("note", note)
    job = bench.put("note")

    async def main():
        worker = bench.worker(store=store, shutdown_timeout=0.0)
        store.after["record"] = lambda recorded: store.before.update(record=raising(trouble))
        running = asyncio.create_task(worker.run())
        await asyncio.wait_for(begun.wait(), PATIENCE)
        worker.stop()
        return await asyncio.wait_for(running, PATIENCE)

    assert asyncio.run(main()).succeeded == 0
    assert bench.status(job) == ["running"]  # its lease will bring it back
    assert "1 outcomes could not be recorded before the end" in caplog.text


def test_outcomes_that_fail_at_first_during_a_stop_are_recorded_after_all(bench, trouble):
    store = Wrapped(bench.store)
    begun = asyncio.Event()
    failures = [trouble] * 3

    def fail_at_first(outcomes, request=None):
        if outcomes and failures:
            raise failures.pop()

    async def note():
        begun.set()

    bench.task("note", note)
    job = bench.put("note")

    async def main():
        worker = bench.worker(store=store)
        running = asyncio.create_task(worker.run())
        store.before["record"] = fail_at_first
        await asyncio.wait_for(begun.wait(), PATIENCE)
        worker.stop()
        return await asyncio.wait_for(running, PATIENCE)

    assert asyncio.run(main()).succeeded == 1
    assert bench.status(job) == ["success"]
    assert not failures


def test_a_worker_waits_for_tables_that_are_not_there_yet(make_bench, tmp_path, caplog):
    from tests.runtime.conftest import Bench
    from tinyjobs.backends.sqlite.backend import SQLiteBackend
    from tinyjobs.core.clock import SystemClock

    bench = make_bench("memory")
    late = SQLiteBackend(str(tmp_path / "late.db"))
    bench.task("note", lambda: None)

    async def main():
        worker = bench.worker(store=late)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: "tinyjobs are missing" in caplog.text)
        there = Bench(SQLiteBackend(str(tmp_path / "late.db")), SystemClock())
        there.tasks = bench.tasks
        job = there.put("note")
        await eventually(lambda: there.status(job) == ["success"])
        worker.stop()
        await running
        await there.store.close()
        await late.close()

    with caplog.at_level(logging.INFO, "tinyjobs"):
        asyncio.run(main())
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("out of reach" in text for text in warned) == 1
    assert set(warned) - {"the store answers again"} == {text for text in warned if "out of reach" in text}


@pytest.mark.parametrize("verb", ["record", "next_due"])
def test_a_store_that_was_replaced_ends_the_worker(bench, verb):
    """Its supervisor starts it anew; going on, it would wait for ever for jobs that others see and it does not."""
    store = Wrapped(bench.store)
    bench.task("note", lambda: None)

    async def main():
        running = asyncio.create_task(bench.worker(store=store, poll=0.02, shutdown_timeout=1.0).run())
        await eventually(lambda: "next_due" in store.calls)
        store.before[verb] = raising(StoreReplacedError("another file"))
        bench.put("note")
        with pytest.raises(StoreReplacedError, match="another file"):
            await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
