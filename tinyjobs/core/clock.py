"""Time, injected. Nothing in the package reads the time or sleeps except through a `Clock`.

Instants are unix seconds (float). `monotonic` only measures how long something took. The frozen clock is for tests:
it stands still until it is told to move, and moving it wakes whoever sleeps on it.
"""

import asyncio
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the package needs of time."""

    def now(self) -> float:
        """The wall clock in unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never steps."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of this clock."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """The wall clock in unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds on a clock that never steps."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after that many real seconds."""
        await asyncio.sleep(seconds)


class FrozenClock:
    """A clock that stands still until `advance` moves it; safe to share between threads and event loops."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = float(start)
        self._start = self._now
        self._lock = threading.Lock()
        self._sleepers: list[tuple[float, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def now(self) -> float:
        """The instant the clock stands at."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since the clock was made, as far as it was moved."""
        return self._now - self._start

    def advance(self, seconds: float) -> None:
        """Move on by `seconds` (never back) and wake the sleepers whose time has come."""
        if seconds < 0:
            raise ValueError("A frozen clock only moves forward; make a new one to start earlier.")
        with self._lock:
            self._now += seconds
            due = [sleeper for sleeper in self._sleepers if sleeper[0] <= self._now]
            self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._now]
        for _, loop, future in due:
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:
                # Its loop has ended meanwhile, and the sleeper with it.
                continue

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has been advanced by `seconds`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            until = self._now + seconds
            if until <= self._now:
                _wake(future)
            else:
                self._sleepers.append((until, loop, future))
        await future


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
