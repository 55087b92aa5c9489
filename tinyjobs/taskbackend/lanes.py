"""Lanes: the thread in which the blocking calls of one coroutine job run, and with it the connections of that job.

asgiref sends every thread-sensitive call of a process, the ORM's among them, to one single thread, so the jobs of a
worker would queue behind each other's queries. Here each coroutine slot has a lane of its own. A lane is kept from job
to job, and its thread is only made when a job makes such a call.
"""

from collections.abc import Callable
from concurrent.futures import Executor, wait

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import connections

_PATIENCE = 5.0


class Lanes:
    """The lanes of one worker. Used on its event loop; `tidy` is run in a lane's thread after each job."""

    def __init__(self, tidy: Callable[[], None]) -> None:
        self._tidy = tidy
        self._free: list[ThreadSensitiveContext] = []
        self._all: list[ThreadSensitiveContext] = []

    def enter(self) -> ThreadSensitiveContext:
        """Give the calling asyncio task a lane; the one used last, whose connections are the warmest."""
        if self._free:
            lane = self._free.pop()
        else:
            lane = ThreadSensitiveContext()
            self._all.append(lane)
        SyncToAsync.thread_sensitive_context.set(lane)
        return lane

    def leave(self, lane: ThreadSensitiveContext) -> None:
        """Take the lane back. Its thread tidies up before it can do anything for the next job."""
        executor = _thread_of(lane)
        if executor is not None:
            executor.submit(self._tidy)
        self._free.append(lane)

    def close(self) -> None:
        """End the threads and close their connections; one that is still busy is given a few seconds."""
        closing = []
        for lane in self._all:
            executor = SyncToAsync.context_to_thread_executor.pop(lane, None)
            if executor is not None:
                closing.append(executor.submit(connections.close_all))
                executor.shutdown(wait=False)
        wait(closing, timeout=_PATIENCE)
        self._all.clear()
        self._free.clear()


def _thread_of(lane: ThreadSensitiveContext) -> Executor | None:
    return SyncToAsync.context_to_thread_executor.get(lane)
