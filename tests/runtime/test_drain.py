"""The drain: the same rules without a worker, in the calling thread, one job at a time."""

import asyncio
import sqlite3
import threading
from queue import SimpleQueue

import pytest

from tests.runtime import conftest
from tests.runtime.conftest import PATIENCE, Wrapped
from tinyjobs.core.context import current_job
from tinyjobs.core.errors import DataRefusedError, StoreBusyError, StoreUnavailableError, UnknownTaskError
from tinyjobs.core.inline import finish
from tinyjobs.runtime import drain as drain_module
from tinyjobs.runtime import renewal
from tinyjobs.runtime.drain import Drain, drain, run_one


@pytest.fixture
def still(make_bench, frozen):
    return make_bench(clock=frozen)


def test_jobs_run_in_the_order_of_the_queue_in_the_calling_thread(still):
    ran = []
    still.task("note", lambda number: ran.append((number, threading.current_thread())))
    for number, priority in enumerate([0, 5, 0, 9]):
        still.put("note", number, priority=priority)
    assert drain(still.engine()) == 4
    assert ran == [(number, threading.current_thread()) for number in (3, 1, 0, 2)]


def test_one_job_runs_if_it_is_due(still, frozen):
    ran = []
    still.task("note", ran.append)
    job, other = still.put("note", 1), still.put("note", 2)
    later = still.put("note", 3, run_at=frozen.now() + 60.0)
    assert run_one(still.engine(), other).status == "success"
    assert run_one(still.engine(), other) is None
    assert run_one(still.engine(), later) is None
    frozen.advance(60.0)
    assert run_one(still.engine(), later).status == "success"
    assert ran == [2, 3]
    assert still.status(job) == ["queued"]


def test_an_unknown_task_is_an_error_and_its_job_stays(still, frozen):
    job = still.put("nobody.knows")
    with pytest.raises(UnknownTaskError, match=r"nobody\.knows"):
        drain(still.engine())
    assert (still.status(job), still.get(job).attempts, still.get(job).run_at) == (["queued"], 0, frozen.now())


@pytest.mark.parametrize("kind", ["plain", "coroutine", "with a timeout"])
@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_goes_on_and_gives_the_job_back_an_exit_fails_it(still, kind, raised):
    def interrupted():
        raise raised

    async def interrupted_on_the_loop():
        raise raised

    timeout = {"timeout": PATIENCE} if kind == "with a timeout" else {}
    still.task("odd", interrupted_on_the_loop if kind == "coroutine" else interrupted, **timeout)
    job = still.put("odd")
    if raised is KeyboardInterrupt and kind != "with a timeout":
        with pytest.raises(KeyboardInterrupt):
            drain(still.engine())
        assert (still.status(job), still.get(job).attempts) == (["queued"], 0)
    else:
        drain(still.engine())
        assert still.status(job) == ["failed"]


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("has_begun", [True, False])
def test_an_interrupt_while_the_thread_of_a_function_begins_runs_it_once(still, monkeypatch, has_begun, raised):
    begun, ran, started, start = threading.Event(), [], [], threading.Thread.start

    def interrupted(thread):
        if thread.name != "tinyjobs-drain-long":
            return start(thread)
        started.append(thread)
        if has_begun:
            start(thread)
            assert begun.wait(PATIENCE)
        raise raised

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    still.task("long", lambda: (begun.set(), ran.append(1)), timeout=PATIENCE)
    job = still.put("long")
    with pytest.raises(raised):
        drain(still.engine())
    (thread,) = started
    if not has_begun:
        start(thread)  # it comes too late
    thread.join(PATIENCE)
    assert still.status(job) == ["success" if has_begun else "queued"]
    assert len(ran) == has_begun


def test_timeouts_of_both_kinds(still):
    async def slow():
        await asyncio.sleep(PATIENCE)

    go_on = threading.Event()
    still.task("coroutine", slow, timeout=0.02)
    still.task("thread", lambda: go_on.wait(PATIENCE), timeout=0.02)
    still.task("quick", lambda: None, timeout=PATIENCE)
    jobs = [still.put("coroutine"), still.put("thread"), still.put("quick")]
    assert drain(still.engine()) == 3
    go_on.set()
    assert [still.history(job) for job in jobs] == [["timeout"], ["timeout"], ["success"]]


def test_an_outcome_the_store_refuses_is_recorded_as_a_failure(still):
    still.store._inline._connection._raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 60_000)
    told = []
    still.hooks.on_failure.append(lambda job, error, will_retry: told.append((job.id, will_retry)))
    still.task("large", lambda: "x" * 100_000, store_result=True, max_attempts=3)
    job = still.put("large")
    assert drain(still.engine()) == 1
    assert still.get(job).last_error.startswith("UnencodableResult")
    assert still.history(job) == ["failed"]
    assert told == [(job, False)]


def test_a_refusal_of_the_failure_itself_is_raised(still):
    still.task("note", lambda: None)
    still.put("note")

    def refuse(recorded):
        if recorded.applied:
            raise DataRefusedError("nothing at all")

    store = Wrapped(still.store)
    store.after["record"] = refuse
    with pytest.raises(DataRefusedError):
        drain(still.engine(store))


@pytest.mark.parametrize("error", [StoreBusyError("locked"), StoreUnavailableError("gone")])
def test_an_outcome_is_written_again_after_trouble(still, error, monkeypatch):
    monkeypatch.setattr(drain_module, "FIRST_PAUSE", 0.001)
    failures = [error] * 5
    told = []
    still.hooks.on_success.append(lambda job, result, seconds: told.append(job.id))
    still.task("note", lambda: None)
    job = still.put("note")

    def fail_outcomes(outcomes, request=None):
        if outcomes and failures:
            raise failures.pop()

    assert drain(still.engine(Wrapped(still.store, {"record": fail_outcomes}))) == 1
    assert (still.status(job), told, failures) == (["success"], [job], [])


def test_an_outcome_whose_answer_was_lost_is_not_taken_for_stale(still, monkeypatch):
    monkeypatch.setattr(drain_module, "FIRST_PAUSE", 0.001)
    told, lost = [], []
    still.hooks.on_success.append(lambda job, result, seconds: told.append(job.id))
    still.task("note", lambda: None)
    job = still.put("note")
    store = Wrapped(still.store)

    def lose(recorded):
        if recorded.applied and not lost:
            lost.append(1)
            raise StoreUnavailableError("the connection broke")

    store.after["record"] = lose
    assert drain(still.engine(store)) == 1
    assert (still.status(job), told) == (["success"], [job])


def test_without_a_lease_trouble_is_the_callers(still):
    still.task("note", lambda: None)
    still.put("note")

    def fail_outcomes(outcomes, request=None):
        if outcomes:
            raise StoreBusyError("locked")

    store = Wrapped(still.store, {"record": fail_outcomes})
    with pytest.raises(StoreBusyError):
        Drain(still.engine(store), keeps_lease=False).run()


def test_a_cancelled_job_is_told_as_it_stands(still):
    def cancel_itself():
        assert finish(still.store.inline().cancel(current_job().id))

    told = []
    still.hooks.on_success.append(lambda *arguments: told.append(arguments))
    still.task("note", cancel_itself)
    job = still.put("note")
    assert run_one(still.engine(), job).status == "cancelled"
    assert not told


def test_the_lease_of_a_long_job_is_renewed_in_spite_of_trouble(make_bench, monkeypatch):
    monkeypatch.setattr(renewal, "LEASE", 0.3)
    bench = make_bench("file")
    other = make_bench("file")
    beats, failures = [], [StoreBusyError("locked"), RuntimeError("whatever")]
    told = []
    bench.hooks.on_error.append(lambda name, error: told.append((name, type(error))))
    enough = threading.Event()

    def beat(held, lease):
        beats.append(lease)
        if failures:
            raise failures.pop()
        if len(beats) >= 8:
            enough.set()

    bench.task("long", lambda: enough.wait(PATIENCE))
    bench.put("long")
    reaped = []

    def reap():
        while not enough.wait(0.05):
            reaped.extend(asyncio.run(other.store.reap_expired()))

    reaper = threading.Thread(target=reap)
    reaper.start()
    assert drain(bench.engine(Wrapped(bench.store, {"heartbeat": beat}))) == 1
    reaper.join(conftest.PATIENCE)
    assert not reaped
    assert {name for name, _ in told} == {"leases"}
    assert bench.counts() == {"success": 1}


def test_a_drain_starts_no_thread_for_each_job(still, monkeypatch):
    started = []
    real = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread.name), real(thread)))
    still.task("note", lambda number: None)
    still.put_many("note", 20)
    assert drain(still.engine()) == 20
    assert len(started) <= 1
    assert not [thread for thread in threading.enumerate() if thread.name in started and not thread.daemon]


# --- hooks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
@pytest.mark.parametrize("raised", [RuntimeError, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_a_hook_that_raises_is_logged_and_the_drain_goes_on(still, kind, raised, caplog):
    told = []

    def broken(*arguments):
        raise raised

    async def broken_on_the_loop(*arguments):
        await asyncio.sleep(0)
        raise raised

    hook = broken if kind == "plain" else broken_on_the_loop
    hooks = still.hooks
    for hooked in (hooks.on_start, hooks.on_success, hooks.on_failure):
        hooked.extend([hook, lambda job, *arguments: told.append((job.payload, job.status, still.status(job.id)))])

    def fail():
        raise ValueError

    still.task("good", lambda: None)
    still.task("bad", fail)
    still.put("good")
    still.put("bad")
    assert drain(still.engine()) == 2
    assert [(status, stored) for _, status, stored in told] == [
        ("running", ["running"]),
        ("success", ["success"]),
        ("running", ["running"]),
        ("failed", ["failed"]),
    ]
    assert [record.name for record in caplog.records].count("tinyjobs.hooks") == 4


def test_a_hook_may_answer_anything_that_can_be_awaited(still, caplog):
    """As in a worker, where the loop is at hand."""
    told = []

    class Later:
        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            told.append("awaited")

    still.hooks.on_success.append(lambda *arguments: Later())
    still.task("note", lambda: None)
    still.put("note")
    assert drain(still.engine()) == 1
    assert told == ["awaited"] and not caplog.records


def test_a_ctrl_c_in_a_hook_ends_the_drain_and_the_outcome_stands(still):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    still.hooks.on_success.append(interrupted)
    still.task("note", lambda: None)
    first, second = still.put("note"), still.put("note")
    with pytest.raises(KeyboardInterrupt):
        drain(still.engine())
    assert (still.status(first), still.status(second)) == (["success"], ["queued"])


def test_a_drain_fires_no_schedules_and_keeps_to_limit_and_queues(still):
    ran = []
    still.task("note", lambda number: ran.append(number))
    for number, queue in enumerate(["a", "b", "a", "c", "a"]):
        still.put("note", number, queue=queue)
    assert drain(still.engine(), queues=["a", "c"], limit=2) == 2
    assert drain(still.engine(), queues=["a", "c"]) == 2
    assert drain(still.engine(), limit=0) == 0
    assert ran == [0, 2, 3, 4]


def test_the_lease_of_a_drain_is_a_minute_renewed_each_twenty_seconds(still, monkeypatch, frozen):
    waits, seen, waiting = [], [], threading.Event()

    class Noted(SimpleQueue):
        def get(self, timeout):
            waits.append(timeout)
            waiting.set()
            return super().get(timeout=timeout)

    def note():
        waiting.wait(PATIENCE)
        seen.append(still.get(current_job().id).lease_expires_at)

    monkeypatch.setattr(renewal, "SimpleQueue", Noted)
    still.task("note", note)
    still.put("note")
    assert drain(still.engine()) == 1
    assert seen == [frozen.now() + 60.0]
    assert waits == [20.0]
