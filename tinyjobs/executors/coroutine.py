"""Coroutine tasks run on the worker's own event loop, each as an asyncio task, with a timeout that really cuts.

Whatever a task's own code raises, `SystemExit` included, ends that run and nothing else. Knows no store.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType

from tinyjobs.core.context import running_job
from tinyjobs.core.errors import JobTimeout
from tinyjobs.executors.call import Call, Deliver, End, Ending


class CoroutineExecutor:
    """Runs up to `slots` calls at once on the running loop."""

    def __init__(self, slots: int, deliver: Deliver, monotonic: Callable[[], float]) -> None:
        self._slots = slots
        self._deliver = deliver
        self._monotonic = monotonic
        self._calls: dict[Call, asyncio.Task[None] | None] = {}
        self._waiting: deque[Call] = deque()
        self._is_cutting = False

    @property
    def free(self) -> int:
        """Slots without a running call."""
        return self._slots - len(self._calls)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._calls

    def running(self) -> list[Call]:
        """The calls under way."""
        return list(self._calls)

    def start(self, call: Call) -> None:
        """Take a call on: from now on it is one of those running, so its lease is kept. `begin` runs it."""
        self._calls[call] = None
        self._waiting.append(call)

    def begin(self, is_over: Callable[[], bool]) -> None:
        """Run the calls taken on, each at once up to its first wait; endings are delivered on this loop.

        `is_over` is asked before each: what has not begun by then ends as not started.
        """
        loop = asyncio.get_running_loop()
        while self._waiting:
            if is_over():
                self._give_up_waiting()
                return
            call = self._waiting.popleft()
            task = asyncio.Task(self._run(call), loop=loop, eager_start=True)
            if call in self._calls:
                self._calls[call] = task

    def cut(self) -> None:
        """Cancel every call under way; each ends as cut short, unless it ends otherwise first."""
        self._is_cutting = True
        for task in list(self._calls.values()):
            if task is not None:
                task.cancel()
        self._give_up_waiting()

    def _give_up_waiting(self) -> None:
        while self._waiting:
            call = self._waiting.popleft()
            del self._calls[call]
            self._deliver([Ending(call, End.NOT_STARTED, 0.0)])

    async def _run(self, call: Call) -> None:
        running_job.set(call.job)
        began = self._monotonic()
        timeout = call.spec.options.timeout
        limit = asyncio.timeout(timeout) if timeout is not None else None
        try:
            value = await self._invoke(call, limit)
            end, error = End.RETURNED, None
        except BaseException as caught:
            value, error = None, caught
            end = self._end_of(caught, limit)
            if end is End.TIMED_OUT and timeout is not None:
                error = JobTimeout.after(timeout)
                error.__cause__ = caught
        del self._calls[call]
        self._deliver([Ending(call, end, self._monotonic() - began, value, error)])

    async def _invoke(self, call: Call, limit: asyncio.Timeout | None) -> object:
        if call.around is None and limit is None:
            return await call.spec.call(*call.args, **call.kwargs)
        async with _Both(call, limit):
            return await call.spec.call(*call.args, **call.kwargs)

    def _end_of(self, caught: BaseException, limit: asyncio.Timeout | None) -> End:
        if limit is not None and limit.expired() and isinstance(caught, TimeoutError | asyncio.CancelledError):
            return End.TIMED_OUT
        if self._is_cutting and isinstance(caught, asyncio.CancelledError):
            return End.CUT
        return End.RAISED


class _Both:
    """The timeout and what goes around a call, entered together: the clean-up is inside the limit as well."""

    def __init__(self, call: Call, limit: asyncio.Timeout | None) -> None:
        self._around = call.around(call.job) if call.around else None
        self._limit = limit

    async def __aenter__(self) -> None:
        if self._limit is not None:
            await self._limit.__aenter__()
        if self._around is not None:
            self._around.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._around is not None:
                self._around.__exit__(kind, error, traceback)
        finally:
            if self._limit is not None:
                await self._limit.__aexit__(kind, error, traceback)
