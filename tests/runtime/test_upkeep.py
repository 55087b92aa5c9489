"""Taking lost jobs back: not those that this worker runs, and while it is told to stop."""

import asyncio
import threading

import pytest

from tests.crash.wrong_clocks import ShiftedClock
from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core.errors import StoreBusyError, StoreUnavailableError


@pytest.mark.parametrize("error", [StoreBusyError("locked"), StoreUnavailableError("gone"), RuntimeError("odd")])
def test_a_reap_that_fails_after_the_stop_was_asked_for_does_not_keep_the_worker(make_bench, error):
    bench = make_bench("file")
    store = Wrapped(bench.store)

    async def main():
        reaping, answer = asyncio.Event(), asyncio.Event()

        async def reap(*arguments):
            reaping.set()
            await answer.wait()
            raise error

        store.before["reap_expired"] = reap
        worker = bench.worker(store=store)
        running = asyncio.create_task(worker.run())
        await reaping.wait()
        worker.stop()
        asyncio.get_running_loop().call_later(0.05, answer.set)
        # The next reap would wait for ever, so a worker that goes on reaping is found out.
        await asyncio.wait_for(running, PATIENCE)
        return store.calls.count("reap_expired")

    assert asyncio.run(main()) == 1


def test_a_worker_that_was_suspended_in_the_middle_of_a_reap_takes_none_of_its_own_jobs(make_bench):
    """It had last looked at the clock before; awake again, its leases are long over and not renewed yet."""
    clock = ShiftedClock(0.0)
    bench = make_bench("file", clock=clock)
    store, go_on = Wrapped(bench.store), threading.Event()
    bench.task("hold", lambda: go_on.wait(PATIENCE), max_attempts=2)
    job, was_over = bench.put("hold"), []

    async def main():
        worker = bench.worker(store=store, lease=30.0, reap_interval=0.02)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.status(job) == ["running"] and store.calls.count("reap_expired") > 1)

        def suspended(*arguments):
            if not was_over:
                clock.shift = 3_600.0
                was_over.append(bench.get(job).lease_expires_at < clock.now())

        store.before["reap_expired"] = suspended
        store.calls.clear()
        await eventually(lambda: store.calls.count("reap_expired") >= 3)
        assert was_over == [True]
        go_on.set()
        await eventually(lambda: bench.get(job).status.is_final)
        worker.stop()
        await running

    asyncio.run(main())
    assert bench.history(job) == ["success"]
