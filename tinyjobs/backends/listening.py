"""What a connection that listens for a store's wake-ups has to do, whatever the server: be there while somebody waits.

It has no task of its own: those who wait for jobs open it, and ask every now and then whether it still answers. In
between the event loop reads what arrives. Knows no driver; a store's `listener.py` says how its server is spoken to.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tinyjobs.backends.waiters import Waiter, Waiters
from tinyjobs.core.errors import StoreError, StoreUnavailableError
from tinyjobs.core.sight import out_of_sight

logger = logging.getLogger("tinyjobs.store")


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds. `check`: how often a connection that says nothing is asked whether it is still there.

    `arrival`: how long a wake-up of our own may take to come back. `deaf`: when that is tried again after it did not.
    """

    check: float
    arrival: float
    deaf: float


class Listening:
    """Turns what arrives into nudges of waiters. Belongs to the loop on which it is made."""

    #: What stands before a probe, and before nothing else that is told.
    probe_mark = ""

    def __init__(
        self, where: str, waiters: Waiters, tell: Callable[[str], Awaitable[None]], times: Times, remedy: str
    ) -> None:
        self.loop = asyncio.get_running_loop()
        #: Whether a wake-up of our own has come back since it was opened, and it has answered ever since.
        self.hears = False
        self._where = where
        self._waiters = waiters
        self._tell = tell
        self._times = times
        self._remedy = remedy
        self._process = os.getpid()
        # At most one thing is under way: the opening, or a check.
        self._work: asyncio.Task[None] | None = None
        self._next_work = 0.0
        # What that waits for: the server's answer, or a wake-up with the topic `_probe`.
        self._awaited: asyncio.Future[None] | None = None
        self._probe = ""
        self._is_deaf = False
        self._failures = 0
        self._failure: StoreError | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it belongs to this process and to a loop that has not ended."""
        return self._process == os.getpid() and not self.loop.is_closed()

    async def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Wait until the waiter is told of a job; False: it was not, in that time.

        Raises `StoreError` to each waiter when the connection was lost or could not be opened, also between its waits,
        and at the end of a wait in which it was not there. Waiting opens it again.
        """
        ends = self.loop.time() + seconds
        if waiter.version < 0:
            waiter.version = self._failures
        while True:
            if waiter.is_nudged:
                waiter.is_nudged = False
                return True
            if waiter.version != self._failures:
                waiter.version = self._failures
                raise self._failure or StoreUnavailableError(f"{self._where}: wake-ups were interrupted.")
            left = ends - self.loop.time()
            if left <= 0:
                if self._failure is not None:
                    raise self._failure
                return False
            self._attend()
            # What is under way wakes everybody at its end.
            await waiter.wait(left if self._work else min(left, self._next_work - self.loop.time()))

    async def close(self) -> None:
        """Let go of the connection at once, whatever it is doing."""
        if self._process != os.getpid():
            return
        if self.loop.is_closed() or self.loop is asyncio.get_running_loop():
            self._end()
        else:
            self.loop.call_soon_threadsafe(self._end)

    # --- how the server is spoken to ------------------------------------------------------------------------------

    def _is_open(self) -> bool:
        raise NotImplementedError

    async def _open(self) -> None:
        """Connect and listen, then call `_begin`."""
        raise NotImplementedError

    async def _check(self) -> None:
        """Ask whether the server is still there. Raises when it does not answer."""
        raise NotImplementedError

    def _drop(self) -> None:
        """End the connection, if there is one, without a wait. Extended by a store's listener."""
        self.hears = False
        self._probe = ""

    def _translated(self, error: BaseException) -> BaseException:
        raise NotImplementedError

    # --- what keeps it open ---------------------------------------------------------------------------------------

    def _attend(self) -> None:
        if self._work is None and self.loop.time() >= self._next_work:
            self._next_work = self.loop.time() + self._times.check
            work = self._check if self._is_open() else self._open
            self._work = out_of_sight(self.loop.create_task(self._do(work)))

    async def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:
            self._lose(error)
        finally:
            self._work = None
            self._wake()

    async def _begin(self) -> None:
        """From here on it hears. Whatever was told before this moment went unheard."""
        self._failure = None
        for waiter in self._waiters.on(self.loop):
            waiter.nudge()
        await self._try_out()

    async def _try_out(self) -> None:
        """Have a wake-up sent to ourselves by another connection. If none comes, none of anybody's does."""
        self._probe = self.probe_mark + secrets.token_hex(8)
        await self._tell(self._probe)
        if self._probe:
            try:
                await self._within(self._times.arrival)
            except TimeoutError:
                self._give_up(self._remedy)
                return
        self.hears = self._is_open()
        if self._is_deaf:
            self._is_deaf = False
            logger.info("%s: notifications arrive, and wake idle workers.", self._where)

    def _give_up(self, remedy: str) -> None:
        """Do without for a while: polling goes on."""
        self._drop()
        self._failure = None
        self._next_work = self.loop.time() + self._times.deaf
        if not self._is_deaf:
            self._is_deaf = True
            logger.warning("%s: notifications do not arrive%s", self._where, remedy)

    async def _within(self, seconds: float) -> None:
        """Wait for what the connection has to bring: the answer, or the wake-up that shows that they arrive."""
        self._awaited = self.loop.create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._awaited
        finally:
            self._awaited = None

    def _came(self) -> None:
        """What was awaited is there."""
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    # --- how it ends ----------------------------------------------------------------------------------------------

    def _break(self, error: Exception) -> None:
        """The connection is of no use any more. What waits for it fails; if nothing does, those who wait for jobs."""
        self._drop()
        if self._awaited is None:
            self._lose(error)
        elif not self._awaited.done():
            self._awaited.set_exception(error)

    def _lose(self, error: BaseException) -> None:
        self._drop()
        told = self._translated(error)
        if not isinstance(told, StoreError):
            told = StoreUnavailableError(f"{self._where}: {told}")
        self._failures += 1
        self._failure = told
        self._next_work = 0.0
        self._wake()

    def _wake(self) -> None:
        """Have those who wait see what has changed; that is no job."""
        for waiter in self._waiters.on(self.loop):
            waiter.wake()

    def _end(self) -> None:
        if self._work is not None:
            self._work.cancel()
        self._drop()
