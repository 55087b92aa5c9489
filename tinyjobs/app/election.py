"""Something to be done once, such as connecting, by one of many callers in any threads and event loops.

Knows nothing of what is done.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial

from tinyjobs.app.undisturbed import undisturbed


class Election:
    """The others wait for the one who does it, and get the same answer. After an error the next caller tries again."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._attempt: Future[bool] | None = None
        self.is_done = False

    def settle(self) -> None:
        """Return once the work is done. Raises what the attempt raised. An interrupt ends the wait, not the work."""
        if not self.is_done:
            undisturbed(self._settle)

    async def asettle(self) -> None:
        """Like `settle`. The work is done on a thread: no loop waits for it, and none that ends takes it along."""
        while not self.is_done:
            attempt, is_mine = self._join()
            if is_mine:
                _begin(partial(self._try, attempt), "tinyjobs-connect")
            await told(attempt)

    def _settle(self) -> None:
        while not self.is_done:
            attempt, is_mine = self._join()
            if is_mine:
                self._try(attempt)
            attempt.result()

    def _join(self) -> tuple["Future[bool]", bool]:
        with self._lock:
            attempt = self._attempt
            if attempt is not None:
                return attempt, False
            attempt = self._attempt = Future()
            attempt.set_running_or_notify_cancel()  # from here on no waiter who leaves can cancel it
            return attempt, True

    def _try(self, attempt: "Future[bool]") -> None:
        try:
            self._work()
        except Exception as error:
            self._attempt = None
            attempt.set_exception(error)
        except BaseException:
            # It is meant for this caller alone; whoever waits tries in its place.
            self._attempt = None
            attempt.set_result(False)
            raise
        else:
            self.is_done = True
            attempt.set_result(True)


async def beside(work: Callable[[], object], name: str) -> None:
    """Have a thread do the work, in a copy of this context, and wait for it. Cancelling the caller does not end it."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    _begin(partial(copy_context().run, run), name)
    await told(future)


def _begin(work: Callable[[], object], name: str) -> None:
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:
        # At the end of the interpreter no thread begins any more. There the loop does wait.
        work()


async def told[T](future: "Future[T]") -> T:
    """Await the answer of a future that a thread will settle. Cancelling the caller does not touch it.

    Unlike `asyncio.wrap_future` it leaves no exception unretrieved, and asks nothing of a loop that has ended.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def settled(_: object) -> None:
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:
            return  # nobody is left to hear it

    future.add_done_callback(settled)
    await waiter
    return future.result()
