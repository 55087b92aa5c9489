"""Taking lost jobs back while the worker is told to stop."""

import asyncio

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped
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
