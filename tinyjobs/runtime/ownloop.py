"""An event loop of a worker's own, which no job can end or hold up.

`asyncio.run` leaves with the first `SystemExit` of any task, waits for ever for one that ignores its cancellation,
and joins the threads of `asyncio.to_thread` at exit. A worker that runs other people's code can afford none of it.
Knows nothing of jobs.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from tinyjobs.core.sight import out_of_sight

logger = logging.getLogger("tinyjobs.worker")

# After how many errors of its own a loop is given up.
_BROKEN = 10
# How long tasks that are left over may take to end once they are cancelled.
_LAST_MOMENT = 0.5

# Tasks that ignored their cancellation. Kept, since a pending task that is collected runs its clean-up anywhere.
_left_behind: list[asyncio.Task[Any]] = []


def run_to_end[T](main: Coroutine[Any, Any, T], escaped: Callable[[BaseException], None] | None = None) -> T:
    """Run the coroutine on a new event loop in this thread, whatever other tasks on that loop raise.

    `escaped` is told what came out of the loop before the coroutine was done; without it a line is logged.
    """
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        loop.set_default_executor(DaemonExecutor(32, thread_name_prefix="tinyjobs-blocking"))
        return _run_until_done(loop, out_of_sight(loop.create_task(main)), escaped or _log)
    finally:
        _end(loop)
        asyncio.set_event_loop(None)
        loop.close()


def _run_until_done[T](
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[T], escaped: Callable[[BaseException], None]
) -> T:
    broken = 0
    while not task.done():
        try:
            loop.run_until_complete(task)
        except BaseException as error:
            # Out of another task or a callback: a job's own child that called sys.exit(), or that stopped the loop.
            # The task it belongs to hears of it; the loop itself only has to go on.
            if task.done() or loop.is_closed():
                break
            # What a task raises stays in it; an OSError that leaves the loop is the loop's own, whose descriptors a
            # job has closed. It will not get better, and a process that ends gives its jobs to other workers.
            broken += isinstance(error, OSError)
            if broken >= _BROKEN:
                raise
            escaped(error)
    return task.result()


def _log(error: BaseException) -> None:
    logger.warning("a task left the event loop by raising %s; the loop goes on", type(error).__name__)


def _end(loop: asyncio.AbstractEventLoop) -> None:
    leftovers = asyncio.all_tasks(loop)
    for task in leftovers:
        task.cancel()
    try:
        if leftovers:
            _, pending = loop.run_until_complete(asyncio.wait(leftovers, timeout=_LAST_MOMENT))
            _left_behind.extend(pending)
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), _LAST_MOMENT))
    except (Exception, SystemExit):
        logger.warning("what was left on the event loop could not be ended in order", exc_info=True)


class DaemonExecutor(ThreadPoolExecutor):
    """A pool whose threads end with the process instead of holding it: a blocked call must not outlive a stop.

    A subclass because asyncio takes nothing else as a loop's own pool.
    """

    def __init__(self, max_workers: int, thread_name_prefix: str) -> None:
        super().__init__(max_workers, thread_name_prefix)
        self._most = max_workers
        self._prefix = thread_name_prefix
        self._guard = threading.Lock()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = 0
        self._open = 0
        self._is_shut = False

    def submit[**P, T](self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See `concurrent.futures.Executor.submit`."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                value = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        with self._guard:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._open += 1
            if self._open > self._started and self._started < self._most:
                self._start_thread()
            self._work.put(work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take nothing more. Never waits, since the calls under way may never end."""
        with self._guard:
            self._is_shut = True
            for _ in range(self._started):
                self._work.put(None)

    def _start_thread(self) -> None:
        name = f"{self._prefix}-{self._started + 1}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._started += 1

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work
            with self._guard:
                self._open -= 1
