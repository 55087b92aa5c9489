"""Hooks: what a program asks to be told about its jobs.

They run after the outcome is recorded, in the order the jobs ended, and out of the way of whoever records. One that
raises is logged and ignored: watching a job must never change what happens to it.
"""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from tinyjobs.core.job import Job
from tinyjobs.core.sight import out_of_sight
from tinyjobs.runtime.ownloop import DaemonExecutor

logger = logging.getLogger("tinyjobs.hooks")

#: The id of the worker or drain that runs the hook which is running right now, and that ends only after it.
telling: ContextVar[str | None] = ContextVar("tinyjobs_telling", default=None)


class Watcher(Protocol):
    """What keeps count of jobs. Told at once, by whoever runs them and on its thread: it must not wait for anything.

    Nothing here is a promise to be told in order: hooks are that, and cost a hand-over each.
    """

    def began(self, job: Job) -> None:
        """An attempt begins."""
        ...

    def ended(self, job: Job) -> None:
        """An attempt has ended, recorded or not. May be told of what never began, and twice."""
        ...

    def succeeded(self, job: Job, seconds: float) -> None:
        """A success is recorded."""
        ...

    def failed(self, job: Job, error: BaseException, will_retry: bool) -> None:
        """A failure is recorded, also one that befell a job without an attempt."""
        ...


@dataclass(slots=True)
class Hooks:
    """Callables, sync or async. Sync ones run one after another on a thread of their own in a worker."""

    on_start: list[Callable[[Job], object]] = field(default_factory=list)
    on_success: list[Callable[[Job, Any, float], object]] = field(default_factory=list)
    on_failure: list[Callable[[Job, BaseException, bool], object]] = field(default_factory=list)
    on_error: list[Callable[[str, BaseException], object]] = field(default_factory=list)
    #: Told of each job that a schedule made, once it is kept.
    on_fired: list[Callable[[Job], object]] = field(default_factory=list)
    watchers: list[Watcher] = field(default_factory=list)
    #: The async error hooks that are under way. Kept here, since a loop holds none of its tasks.
    reports: set[asyncio.Task[None]] = field(default_factory=set)

    def began(self, job: Job) -> None:
        """Tell the watchers, here and below. One that raises is logged and ignored, as a hook is."""
        for watcher in self.watchers:
            try:
                watcher.began(job)
            except Exception as error:
                _ignored(watcher, error)

    def ended(self, job: Job) -> None:
        """See `Watcher.ended`."""
        for watcher in self.watchers:
            try:
                watcher.ended(job)
            except Exception as error:
                _ignored(watcher, error)

    def succeeded(self, job: Job, seconds: float) -> None:
        """See `Watcher.succeeded`."""
        for watcher in self.watchers:
            try:
                watcher.succeeded(job, seconds)
            except Exception as error:
                _ignored(watcher, error)

    def failed(self, job: Job, error: BaseException, will_retry: bool) -> None:
        """See `Watcher.failed`."""
        for watcher in self.watchers:
            try:
                watcher.failed(job, error, will_retry)
            except Exception as error:
                _ignored(watcher, error)

    def report(self, loop_name: str, error: BaseException) -> None:
        """Tell the error hooks of a failing pass of a long-running loop. Async ones go on beside whoever reports."""
        for hook in self.on_error:
            try:
                answer = hook(loop_name, error)
                if inspect.isawaitable(answer):
                    self._go_on(answer)
            except Exception:
                logger.exception("an error hook raised and was ignored")

    async def reported(self, timeout: float) -> None:
        """Wait for the async error hooks that go on on this event loop, `timeout` seconds at most."""
        loop = asyncio.get_running_loop()
        if own := [task for task in list(self.reports) if task.get_loop() is loop]:
            await asyncio.wait(own, timeout=timeout)

    def _go_on(self, answer: Awaitable[object]) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # As on the thread that keeps leases, which must not wait for anybody.
            run = partial(asyncio.run, _reported(answer))
            threading.Thread(target=run, name="tinyjobs-on-error", daemon=True).start()
            return
        task = loop.create_task(_reported(answer))
        self.reports.add(task)
        task.add_done_callback(self.reports.discard)


#: What hooks still under way get at the end, when the shutdown timeout is used up or nobody is to be waited for.
LEAST_FOR_HOOKS = 1.0
#: How many events may wait before a worker claims less: hooks that are slower than the jobs would fill its memory.
BACKLOG = 10_000

type Event = tuple[list[Callable[..., object]], tuple[Any, ...]]


class HookRunner:
    """Runs events of hooks on an event loop, in order; `close` waits for those already handed in.

    `owner` is the id of the worker that ends only after them.
    """

    def __init__(self, owner: str | None = None) -> None:
        self._owner = owner
        self._events: deque[Event] = deque()
        self._task: asyncio.Task[None] | None = None
        self._thread: DaemonExecutor | None = None
        self._began_at = 0.0
        self._is_hurried = asyncio.Event()
        #: Called when the hooks have caught up after they had fallen behind.
        self.caught_up: Callable[[], None] = _nothing
        #: Called when every event handed in has been told.
        self.told_all: Callable[[], None] = _nothing
        #: How many events were ever handed in.
        self.added = 0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def is_busy(self) -> bool:
        """Whether a hook is to be told, or is under way."""
        return self._task is not None and not self._task.done()

    @property
    def seconds_on_this_one(self) -> float:
        """For how long the hook that is under way has been."""
        return asyncio.get_running_loop().time() - self._began_at

    @property
    def excess(self) -> int:
        """How many events wait beyond what may."""
        return max(len(self._events) - BACKLOG, 0)

    def add(self, hooks: list[Callable[..., object]], *arguments: Any) -> None:
        """Hand in an event; costs nothing when nobody listens."""
        if not hooks:
            return
        self._events.append((hooks, arguments))
        self.added += 1
        if not self.is_busy:
            loop = asyncio.get_running_loop()
            self._began_at = loop.time()
            self._task = out_of_sight(loop.create_task(self._run()))
            self._task.add_done_callback(lambda _: self.told_all())

    async def close(self, timeout: float | None = None) -> None:
        """Wait until every event handed in has been told, `timeout` seconds at most; then give up on the rest."""
        if self._task is not None:
            hurried = out_of_sight(asyncio.get_running_loop().create_task(self._is_hurried.wait()))
            await asyncio.wait([self._task, hurried], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            hurried.cancel()
            if self._is_hurried.is_set():
                await asyncio.wait([self._task], timeout=LEAST_FOR_HOOKS)
            if not self._task.done():
                logger.warning("hooks were still running when the worker had to stop; %d untold", len(self._events))
                self._events.clear()
                self._task.cancel()
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    def hurry(self) -> None:
        """Have `close` wait for a moment only, also one that waits already. On the loop's thread."""
        self._is_hurried.set()

    async def _run(self) -> None:
        telling.set(self._owner)
        while self._events:
            hooks, arguments = self._events.popleft()
            if len(self._events) == BACKLOG:
                self.caught_up()
            for hook in hooks:
                self._began_at = asyncio.get_running_loop().time()
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
        answer = await asyncio.get_running_loop().run_in_executor(self._thread, self._called, hook, arguments)
        if inspect.isawaitable(answer):
            await answer

    def _called(self, hook: Callable[..., object], arguments: tuple[Any, ...]) -> object:
        # Set here, since the thread has a context of its own.
        telling.set(self._owner)
        return hook(*arguments)


async def _awaited(answer: Awaitable[object]) -> None:
    await answer


async def _reported(answer: Awaitable[object]) -> None:
    try:
        await answer
    except Exception:
        logger.exception("an error hook raised and was ignored")


def _ignored(watcher: Watcher, error: Exception) -> None:
    logger.error("a watcher of jobs raised and was ignored: %r", watcher, exc_info=error)


def _nothing() -> None:
    return None


def _is_cancelled() -> bool:
    """Whether the task that runs hooks was itself cancelled, rather than a hook that raised what it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def tell_now(
    hooks: list[Callable[..., object]], *arguments: Any, await_: Callable[[Any], object], owner: str | None = None
) -> None:
    """Run hooks in the calling thread, as a synchronous drain does; coroutines are handed to `await_`.

    `owner` is the id of that drain.
    """
    for hook in hooks:
        before = telling.set(owner)
        try:
            answer = hook(*arguments)
            if inspect.isawaitable(answer):
                # Not only coroutines can be awaited, as in a worker, but only they can be handed to a loop.
                await_(answer if inspect.iscoroutine(answer) else _awaited(answer))
        except KeyboardInterrupt:
            raise
        except BaseException:
            # Also `SystemExit`, as in a worker: whoever watches a job must not be able to change what happens to it.
            logger.exception("a hook raised and was ignored: %r", hook)
        finally:
            telling.reset(before)
