"""Hooks: what a program asks to be told about its jobs.

They run after the outcome is recorded, in the order the jobs ended, and out of the way of whoever records. One that
raises is logged and ignored: watching a job must never change what happens to it.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tinyjobs.core.job import Job
from tinyjobs.core.sight import out_of_sight
from tinyjobs.runtime.ownloop import DaemonExecutor

logger = logging.getLogger("tinyjobs.hooks")


@dataclass(slots=True)
class Hooks:
    """Callables, sync or async. Sync ones run one after another on a thread of their own in a worker."""

    on_start: list[Callable[[Job], object]] = field(default_factory=list)
    on_success: list[Callable[[Job, Any, float], object]] = field(default_factory=list)
    on_failure: list[Callable[[Job, BaseException, bool], object]] = field(default_factory=list)
    on_error: list[Callable[[str, BaseException], object]] = field(default_factory=list)
    #: Told of each job that a schedule made, once it is kept.
    on_fired: list[Callable[[Job], object]] = field(default_factory=list)

    def report(self, loop_name: str, error: BaseException) -> None:
        """Tell the error hooks of a failing pass of a long-running loop."""
        for hook in self.on_error:
            try:
                hook(loop_name, error)
            except Exception:
                logger.exception("an error hook raised and was ignored")


#: How many events may wait before a worker claims less: hooks that are slower than the jobs would fill its memory.
BACKLOG = 10_000

type Event = tuple[list[Callable[..., object]], tuple[Any, ...]]


class HookRunner:
    """Runs events of hooks on an event loop, in order; `close` waits for those already handed in."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._task: asyncio.Task[None] | None = None
        self._thread: DaemonExecutor | None = None
        #: Called when the hooks have caught up after they had fallen behind.
        self.caught_up: Callable[[], None] = _nothing

    def __len__(self) -> int:
        return len(self._events)

    @property
    def excess(self) -> int:
        """How many events wait beyond what may."""
        return max(len(self._events) - BACKLOG, 0)

    def add(self, hooks: list[Callable[..., object]], *arguments: Any) -> None:
        """Hand in an event; costs nothing when nobody listens."""
        if not hooks:
            return
        self._events.append((hooks, arguments))
        if self._task is None or self._task.done():
            self._task = out_of_sight(asyncio.get_running_loop().create_task(self._run()))

    async def close(self, timeout: float | None = None) -> None:
        """Wait until every event handed in has been told, `timeout` seconds at most; then give up on the rest."""
        if self._task is not None:
            _, pending = await asyncio.wait([self._task], timeout=timeout)
            if pending:
                logger.warning("hooks were still running when the worker had to stop; %d untold", len(self._events))
                self._events.clear()
                self._task.cancel()
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    async def _run(self) -> None:
        while self._events:
            hooks, arguments = self._events.popleft()
            if len(self._events) == BACKLOG:
                self.caught_up()
            for hook in hooks:
                try:
                    if inspect.iscoroutinefunction(hook):
                        await hook(*arguments)
                    else:
                        await self._in_thread(hook, arguments)
                except asyncio.CancelledError:
                    if _is_cancelled():
                        raise
                    logger.exception("a hook raised and was ignored: %r", hook)
                except BaseException:
                    # Also `SystemExit`: whoever watches jobs must not be able to end the worker.
                    logger.exception("a hook raised and was ignored: %r", hook)

    async def _in_thread(self, hook: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        if self._thread is None:
            self._thread = DaemonExecutor(1, thread_name_prefix="tinyjobs-hooks")
        answer = await asyncio.get_running_loop().run_in_executor(self._thread, hook, *arguments)
        if inspect.isawaitable(answer):
            await answer


def _nothing() -> None:
    return None


def _is_cancelled() -> bool:
    """Whether the task that runs hooks was itself cancelled, rather than a hook that raised what it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def tell_now(hooks: list[Callable[..., object]], *arguments: Any, await_: Callable[[Any], object]) -> None:
    """Run hooks in the calling thread, as a synchronous drain does; coroutines are handed to `await_`."""
    for hook in hooks:
        try:
            answer = hook(*arguments)
            if inspect.isawaitable(answer):
                await_(answer)
        except Exception:
            logger.exception("a hook raised and was ignored: %r", hook)
