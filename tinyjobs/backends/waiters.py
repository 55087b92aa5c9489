"""Those in this process who wait for jobs of one store, and how they are told. Knows no store and no driver.

A waiter may name topics, which mean what its store says: the names of queues, or what stands for them. It then hears
of those alone.
"""

import asyncio
import threading
import weakref
from collections.abc import Iterable


class Waiter:
    """Whoever waits for jobs, kept from one wait to the next, so that nothing told in between is lost.

    `is_nudged`: a job was added. `is_hinted`: something may have changed, which is the store's to find out. `version`
    is a counter of the store's as this waiter last saw it, below 0 at first. `topics`: what it wants to hear of; none:
    everything.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_nudged = False
        self.is_hinted = False
        self.version = -1
        self.topics: frozenset[str] = frozenset()
        self._future: asyncio.Future[None] | None = None

    def nudge(self) -> None:
        """Tell it of a job. Callable from any thread."""
        if not self.is_nudged:
            self.is_nudged = True
            try:
                self.loop.call_soon_threadsafe(self.wake)
            except RuntimeError:
                # Its loop has ended; nobody waits there any more.
                return

    def hint(self) -> None:
        """Tell it of a possible change. On its own loop only."""
        self.is_hinted = True
        self.wake()

    async def wait(self, seconds: float) -> None:
        """Return when it was told something, or after that time."""
        if self.is_nudged or self.is_hinted:
            return
        self._future = self.loop.create_future()
        timer = self.loop.call_later(seconds, self.wake)
        try:
            await self._future
        finally:
            timer.cancel()
            self._future = None

    async def told(self, seconds: float) -> bool:
        """Wait to be told of a job, for that time at most; whether it was."""
        await self.wait(seconds)
        was_nudged, self.is_nudged = self.is_nudged, False
        return was_nudged

    def wake(self) -> None:
        """End the wait under way, whatever for. On its own loop only."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class Waiters:
    """Those in this process who wait for jobs, one for each asyncio task that does. Safe from any thread."""

    def __init__(self) -> None:
        self.renew_in_child()

    def renew_in_child(self) -> None:
        """In a forked child nobody waits: the loops are the parent's, and so may be who holds the lock."""
        self._lock = threading.Lock()
        self._waiters: weakref.WeakKeyDictionary[asyncio.Task[object], Waiter] = weakref.WeakKeyDictionary()

    def mine(self, topics: Iterable[str] = ()) -> Waiter:
        """The waiter of the running task, which hears of these topics from now on; none: of everything."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("waiting for jobs needs an asyncio task")
        with self._lock:
            waiter = self._waiters.get(task)
            if waiter is None:
                waiter = self._waiters[task] = Waiter(task.get_loop())
            waiter.topics = frozenset(topics)
            return waiter

    def nudge(self, topics: Iterable[str] = ()) -> None:
        """Tell of a job of these topics whoever wants to hear of one; none: tell everybody."""
        if not self._waiters:
            return
        told = frozenset(topics)
        with self._lock:
            waiters = list(self._waiters.values())
        for waiter in waiters:
            if not told or not waiter.topics or not told.isdisjoint(waiter.topics):
                waiter.nudge()

    def on(self, loop: asyncio.AbstractEventLoop) -> list[Waiter]:
        """Those who wait on that loop."""
        with self._lock:
            return [waiter for waiter in self._waiters.values() if waiter.loop is loop]
