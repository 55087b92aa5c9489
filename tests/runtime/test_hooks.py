"""Hooks: told after the fact, in order, out of the way, and unable to change what happens to a job."""

import asyncio
import logging
import threading

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core.errors import StoreReplacedError, StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.runtime import hooks as hooks_module
from tinyjobs.runtime.ownloop import run_to_end


def test_a_failing_job_tells_of_every_attempt_once_it_is_recorded(bench):
    told = []

    def failed(job, error, will_retry):
        told.append((bench.get(job.id).status.value, job.status.value, job.attempts, str(error), will_retry))

    bench.hooks.on_failure.append(failed)
    bench.task("bad", lambda: 1 / 0, max_attempts=2, retry_base=0.001)
    job = bench.put("bad")

    async def main():
        worker = bench.worker(poll=0.01)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.get(job).status.is_final)
        worker.stop()
        await running

    asyncio.run(main())
    # The store may be further on than the event: the hook only follows.
    assert [entry[1:] for entry in told] == [
        ("queued", 1, "division by zero", True),
        ("failed", 2, "division by zero", False),
    ]
    assert told[1][0] == "failed"


def test_hooks_hear_of_jobs_in_the_order_they_ended(bench):
    told = []
    bench.hooks.on_success.append(lambda job, result, seconds: told.append(result))
    gates = [asyncio.Event() for _ in range(5)]
    waiting = []

    async def wait(number):
        waiting.append(number)
        await gates[number].wait()
        return number

    bench.task("wait", wait)
    bench.put_many("wait", 5)

    async def main():
        worker = bench.worker(until_empty=True)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: len(waiting) == 5)
        for number in (3, 1, 4, 0, 2):
            gates[number].set()
        await running

    asyncio.run(main())
    assert told == [3, 1, 4, 0, 2]


@pytest.mark.parametrize("raised", [RuntimeError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_hook_that_raises_is_logged_and_the_next_ones_are_told(bench, raised, kind, caplog):
    told = []

    def broken(*arguments):
        raise raised("hook")

    async def broken_on_the_loop(*arguments):
        broken()

    hook = broken if kind == "sync" else broken_on_the_loop
    bench.hooks.on_start.append(hook)
    bench.hooks.on_success.extend([hook, lambda job, result, seconds: told.append(job.id)])
    bench.task("good", lambda number: None)
    jobs = bench.put_many("good", 3)
    assert bench.run().succeeded == 3
    assert sorted(told) == jobs
    assert {record.name for record in caplog.records} == {"tinyjobs.hooks"}
    assert len(caplog.records) == 6


def test_a_slow_hook_holds_up_neither_jobs_nor_outcomes(bench):
    go_on = threading.Event()
    told = []
    bench.hooks.on_success.append(lambda job, result, seconds: (go_on.wait(PATIENCE), told.append(job.id)))
    bench.task("good", lambda number: None)
    jobs = bench.put_many("good", 50)

    async def main():
        worker = bench.worker(until_empty=True)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.status(*jobs) == ["success"] * 50)
        assert not told
        go_on.set()
        await running

    asyncio.run(main())
    assert sorted(told) == jobs


def test_hooks_that_fall_behind_slow_the_worker_instead_of_filling_its_memory(bench, monkeypatch):
    monkeypatch.setattr(hooks_module, "BACKLOG", 50)
    go_on = threading.Event()
    told = []
    bench.hooks.on_success.append(lambda job, result, seconds: (go_on.wait(PATIENCE), told.append(job.id)))
    bench.task("good", lambda number: None)
    jobs = bench.put_many("good", 500)

    async def main():
        worker = bench.worker(until_empty=True, concurrency=4, async_concurrency=4, poll=3_600.0)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.counts().get("success", 0) >= 50)
        await asyncio.sleep(0.3)
        waiting = len(worker._parts.hooks)
        go_on.set()
        await asyncio.wait_for(running, PATIENCE)
        return waiting

    assert asyncio.run(main()) <= 50 + 3 * 8
    assert sorted(told) == jobs


def test_hooks_that_never_end_do_not_hold_a_stopped_worker(bench, caplog):
    async def for_ever(job, result, seconds):
        await asyncio.Event().wait()

    bench.hooks.on_success.append(for_ever)
    bench.task("good", lambda number: None)
    bench.put_many("good", 3)

    async def main():
        before = asyncio.all_tasks()
        await bench.worker(until_empty=True, shutdown_timeout=0.1).run()
        await asyncio.sleep(0)
        return asyncio.all_tasks() - before

    assert not asyncio.run(main())
    assert "2 untold" in caplog.text


def test_a_forced_stop_does_not_wait_for_hooks(bench, hook_without_end, caplog):
    bench.task("good", lambda number: None)
    bench.put_many("good", 3)

    async def main():
        worker = bench.worker(shutdown_timeout=PATIENCE)
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(hook_without_end.wait, PATIENCE)
        await eventually(lambda: bench.counts() == {"success": 3})
        parts = worker._parts
        worker.stop()
        # All but the hooks has ended.
        await eventually(parts.keeper._stopped.is_set)
        assert not running.done()
        worker.force()
        return await asyncio.wait_for(running, PATIENCE / 2)

    assert asyncio.run(main()).forced
    assert "2 untold" in caplog.text


def test_an_object_with_an_async_call_is_awaited(bench):
    told = []

    class Hook:
        async def __call__(self, job):
            await asyncio.sleep(0)
            told.append(job.id)

    bench.hooks.on_start.append(Hook())
    bench.task("good", lambda: None)
    job = bench.put("good")
    bench.run()
    assert told == [job]


def test_error_hooks_that_raise_are_ignored(bench, caplog):
    told = []

    def broken(name, error):
        raise RuntimeError("hook")

    bench.hooks.on_error.extend([broken, lambda name, error: told.append(name)])
    failures = [StoreUnavailableError("down")]
    store = Wrapped(bench.store, {"record": lambda *arguments: _raise_all(failures)})
    bench.task("good", lambda: None)
    bench.put("good")
    report = asyncio.run(bench.worker(store=store, until_empty=True).run())
    assert report.succeeded == 1
    assert told == ["worker"]
    assert "an error hook raised" in caplog.text


@pytest.mark.parametrize("place", ["worker", "leases"])
def test_an_error_hook_may_be_async(bench, place, caplog, recwarn):
    """On the worker's loop, or, of what fails on a thread without one, on a loop beside it."""
    told, done = [], threading.Event()

    async def hook(name, error):
        await asyncio.sleep(0)
        told.append((name, str(error)))
        done.set()
        raise RuntimeError("hook")

    async def begin():
        bench.hooks.report("worker", StoreUnavailableError("down"))
        assert not told, "whoever reports does not wait"
        await bench.hooks.reported(PATIENCE)

    bench.hooks.on_error.append(hook)
    if place == "worker":
        asyncio.run(begin())
    else:
        bench.hooks.report("leases", StoreUnavailableError("down"))
    assert done.wait(PATIENCE)
    assert told == [("worker" if place == "worker" else "leases", "down")]
    if place == "worker":
        assert "an error hook raised" in caplog.text
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]


def test_a_worker_that_dies_lets_an_async_error_hook_say_so(bench):
    told = []

    async def hook(name, error):
        await asyncio.sleep(0.05)
        told.append(name)

    bench.hooks.on_error.append(hook)
    store = Wrapped(bench.store, {"next_due": lambda *arguments: _raise_all([StoreReplacedError("gone")])})
    store.before["record"] = store.before["next_due"]
    with pytest.raises(StoreReplacedError):
        run_to_end(bench.worker(store=store).run())
    assert told == ["worker"]


def _raise_all(failures):
    if failures:
        raise failures.pop()


def test_the_worker_that_takes_a_lost_job_back_tells_of_its_end_once(make_bench, caplog):
    bench = make_bench("file")
    told = []
    bench.hooks.on_failure.append(
        lambda job, error, will_retry: told.append((job.id, type(error).__name__, will_retry))
    )
    bench.task("note", lambda: None)
    last, again = bench.put("note", max_attempts=1), bench.put("note", max_attempts=2, queue="unserved")
    finish(bench.store.inline().claim(ClaimRequest(worker_id="gone", limit=2, lease=-1.0)))

    async def main():
        workers = [bench.worker(queues=("served",), reap_interval=0.1) for _ in range(2)]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        await eventually(lambda: len(told) == 2)
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)

    with caplog.at_level(logging.WARNING, "tinyjobs.upkeep"):
        asyncio.run(main())
    assert sorted(told) == sorted([(last, "WorkerLost", False), (again, "WorkerLost", True)])
    assert bench.status(last, again) == ["failed", "queued"]
