"""Tells a waiting worker that the file may have changed, without a write and nearly without work.

In this process an enqueue nudges the waiters. Across processes inotify reports writes to the `-wal` file; where the
system has no inotify, or it proves deaf on this file system, the file's size and time are looked at every few
milliseconds. Neither is trusted: a hint leads to a read, and the worker polls besides.
"""

import asyncio
import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable

from tinyjobs.backends.sqlite.inotify import Inotify

logger = logging.getLogger("tinyjobs.sqlite")

_GLANCE = 0.015


class Waiter:
    """Whoever waits for jobs, kept from one wait to the next, so that nothing told in between is lost.

    `is_nudged`: a job was added in this process. `is_hinted`: the file may have changed. `version` is the store's
    change counter as this waiter last saw it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_nudged = False
        self.is_hinted = False
        self.version = -1
        self._future: asyncio.Future[None] | None = None

    def nudge(self) -> None:
        """Tell it of a job. Callable from any thread."""
        if not self.is_nudged:
            self.is_nudged = True
            try:
                self.loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                # Its loop has ended; nobody waits there any more.
                return

    def hint(self) -> None:
        """Tell it of a change of the file. On its own loop only."""
        self.is_hinted = True
        self._wake()

    async def wait(self, seconds: float) -> None:
        """Return when it was told something, or after that time."""
        if self.is_nudged or self.is_hinted:
            return
        self._future = self.loop.create_future()
        timer = self.loop.call_later(seconds, self._wake)
        try:
            await self._future
        finally:
            timer.cancel()
            self._future = None

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class Waiters:
    """Those in this process who wait for jobs, one for each asyncio task that does. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: weakref.WeakKeyDictionary[asyncio.Task[object], Waiter] = weakref.WeakKeyDictionary()

    def mine(self) -> Waiter:
        """The waiter of the running task."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("waiting for jobs needs an asyncio task")
        with self._lock:
            waiter = self._waiters.get(task)
            if waiter is None:
                waiter = self._waiters[task] = Waiter(task.get_loop())
            return waiter

    def nudge(self) -> None:
        """Tell everybody of a job."""
        if not self._waiters:
            return
        with self._lock:
            waiters = list(self._waiters.values())
        for waiter in waiters:
            waiter.nudge()

    def hint(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell everybody on that loop, which is the running one, of a change of the file."""
        with self._lock:
            waiters = [waiter for waiter in self._waiters.values() if waiter.loop is loop]
        for waiter in waiters:
            waiter.hint()


class FileWatch:
    """Watches the `-wal` file of one database on behalf of those who wait on one loop.

    `changed` is called on that loop while at least one of them has joined. What happens while nobody has is told at
    the next join.
    """

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        self._path = f"{path}-wal"
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._members = 0
        self._is_armed = False
        self._state: tuple[int, int] | None = None
        self._next_glance: asyncio.TimerHandle | None = None
        self._inotify = _open_inotify(os.path.dirname(os.path.abspath(path)))

    @property
    def is_armed(self) -> bool:
        """Whether the system reports changes of the file as it is now; if not, it is looked at every 15 ms."""
        return self._is_armed

    def join(self) -> None:
        """Listen, on behalf of one more."""
        self._members += 1
        if self._members == 1:
            self._listen()

    def leave(self) -> None:
        """One less; with nobody left nothing is done."""
        self._members -= 1
        if self._members == 0:
            self._deafen()

    def close(self) -> None:
        """Let go of the watch."""
        inotify, self._inotify, self._is_armed = self._inotify, None, False
        if inotify is not None:
            inotify.close()

    def _listen(self) -> None:
        if self._inotify is not None and (self._is_armed or self._arm(self._inotify)):
            self._loop.add_reader(self._inotify.descriptor, self._read)
        else:
            self._glance()

    def _deafen(self) -> None:
        if self._next_glance is not None:
            self._next_glance.cancel()
            self._next_glance = None
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.descriptor)

    def _arm(self, inotify: Inotify) -> bool:
        try:
            inotify.watch(self._path)
        except OSError:
            # No -wal yet, or no longer: look at the file until there is one.
            return False
        self._is_armed = True
        # Whatever was written before this moment was not reported.
        self._changed()
        return True

    def _read(self) -> None:
        if self._inotify is None:
            return
        seen, ended = self._inotify.read()
        if ended:
            # Deleted or replaced: the watch went with the old file.
            self._is_armed = False
            self._deafen()
            self._listen()
        if seen:
            self._changed()

    def _glance(self) -> None:
        self._next_glance = None
        state = _state_of(self._path)
        if state != self._state:
            self._state = state
            self._changed()
            if self._inotify is not None and self._arm(self._inotify):
                self._loop.add_reader(self._inotify.descriptor, self._read)
                return
        self._next_glance = self._loop.call_later(_GLANCE, self._glance)


def _open_inotify(folder: str) -> Inotify | None:
    """An instance that is known to hear of writes in that folder, or None."""
    try:
        inotify = Inotify()
    except OSError as error:
        logger.debug("no inotify here, the file is looked at instead: %s", error)
        return None
    if _hears(inotify, folder):
        return inotify
    inotify.close()
    logger.debug("inotify hears nothing in %s, the file is looked at instead", folder)
    return None


def _hears(inotify: Inotify, folder: str) -> bool:
    """Whether a write in that folder is reported, tried on a file of our own."""
    probe = os.path.join(folder, f".tinyjobs-watch-{secrets.token_hex(6)}")
    try:
        with open(probe, "xb") as file:
            inotify.watch(probe)
            file.write(b"?")
            file.flush()
            return inotify.read()[0]
    except OSError:
        return False
    finally:
        try:
            os.unlink(probe)
        except OSError:
            pass
        inotify.read()


def _state_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
