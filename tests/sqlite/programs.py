"""What the tests run in processes of their own. Spawned, so nothing of the test's own process leaks into them."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

from tests.sqlite.stores import make_job, request
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.transitions import succeeded

WAIT = 120


@contextmanager
def taking_the_others_along(barrier: Barrier) -> Iterator[None]:
    """When one process fails the others need not wait for it."""
    try:
        yield
    except BaseException:
        barrier.abort()
        raise


def open_fresh_files(folder: str, rounds: int, barrier: Barrier, number: int) -> None:
    """In every round all processes open the same new file at the same moment, set it up and use it."""
    for round_ in range(rounds):
        store = SQLiteBackend(str(Path(folder) / f"{round_}.db"), clock=SystemClock())
        inline = store.inline()
        with taking_the_others_along(barrier):
            barrier.wait(WAIT)
            finish(inline.setup())
            finish(inline.enqueue(make_job(store.clock, metadata=str(number))))
            barrier.wait(WAIT)
        found = finish(inline.counts_by_status())["queued"]
        assert found == barrier.parties, f"{found} jobs after {barrier.parties} processes sent one each"
        finish(inline.close())


def consume(path: str, written: str, barrier: Barrier, number: int) -> None:
    """Claim and finish jobs until there are none, writing down each id as a task's effect would be."""
    store = SQLiteBackend(path, clock=SystemClock(), busy_timeout=60)
    inline = store.inline()
    out = os.open(written, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ended = []
    barrier.wait(WAIT)
    while True:
        recorded = finish(inline.record(ended, request(1 + number, worker_id=f"worker-{number}")))
        assert recorded.applied == [True] * len(ended)
        assert recorded.claimed is not None
        if not recorded.claimed.jobs:
            break
        for job in recorded.claimed.jobs:
            os.write(out, f"{job.id}\n".encode())
        ended = [succeeded(job, None, store.clock.now()) for job in recorded.claimed.jobs]
    os.close(out)


def fork_and_use(path: str) -> None:
    """Use a store, fork, use it on both sides at once, by both faces."""
    store = SQLiteBackend(path, clock=SystemClock())
    inline = store.inline()
    finish(inline.setup())

    async def by_the_loop(count: int) -> None:
        for _ in range(count):
            await store.enqueue(make_job(store.clock))

    finish(inline.enqueue(make_job(store.clock)))
    asyncio.run(by_the_loop(1))
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(20):
                    finish(inline.enqueue(make_job(store.clock)))
                    assert len(finish(inline.claim(request())).jobs) == 1
                asyncio.run(by_the_loop(5))
                os._exit(0)
            except BaseException as error:
                sys.stderr.write(repr(error))
                os._exit(1)
        children.append(child)
    for _ in range(20):
        finish(inline.enqueue(make_job(store.clock)))
    asyncio.run(by_the_loop(5))
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0, 0], f"children ended with {codes}"
    counts = finish(inline.counts_by_status())
    assert (counts["queued"], counts["running"]) == (2 + 25 + 2 * 5, 40), counts
    asyncio.run(store.close())


if __name__ == "__main__":
    fork_and_use(sys.argv[1])
