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
from collections.abc import Callable

from tinyjobs.backends.sqlite.inotify import Inotify

logger = logging.getLogger("tinyjobs.sqlite")

_GLANCE = 0.01


class Waiters:
    """Those in this process who wait for a nudge. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: dict[asyncio.Future[bool], asyncio.AbstractEventLoop] = {}

    def add(self, future: "asyncio.Future[bool]") -> None:
        """Have the future set to True by the next nudge. On the future's own loop."""
        with self._lock:
            self._futures[future] = future.get_loop()

    def __contains__(self, future: object) -> bool:
        return future in self._futures

    def discard(self, future: "asyncio.Future[bool]") -> None:
        """Forget the future."""
        with self._lock:
            self._futures.pop(future, None)

    def nudge(self) -> None:
        """Wake everybody who waits."""
        if not self._futures:
            return
        with self._lock:
            waiting, self._futures = self._futures, {}
        for future, loop in waiting.items():
            try:
                loop.call_soon_threadsafe(set_once, future)
            except RuntimeError:
                continue


def set_once(future: "asyncio.Future[bool]") -> None:
    """Set the future to True unless it is done."""
    if not future.done():
        future.set_result(True)


class FileWatch:
    """Watches the `-wal` file of one database, on the loop that waits. `close` before the loop ends."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        self._inotify: Inotify | None = None
        self._is_armed = False
        self._glance: tuple[int, int] | None = None
        try:
            inotify = Inotify()
            if _hears(inotify, os.path.dirname(os.path.abspath(path))):
                self._inotify = inotify
            else:
                inotify.close()
        except OSError as error:
            logger.debug("no inotify here, the file is looked at instead: %s", error)

    @property
    def is_notified(self) -> bool:
        """Whether the system reports changes; if not, the file is looked at every 10 ms while somebody waits."""
        return self._inotify is not None

    def close(self) -> None:
        """Let go of the watch."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    async def wait(self, future: "asyncio.Future[bool]", timeout: float) -> bool:
        """Wait until the file changed or `future` is set by somebody else; False: `timeout` seconds went by."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout, _expire, future)
        stop = self._notify(loop, future) if self._arm() else self._look_again(loop, future)
        try:
            return await future
        finally:
            stop()
            timer.cancel()

    def _arm(self) -> bool:
        if self._inotify is None:
            return False
        if not self._is_armed:
            try:
                self._inotify.watch(self._path)
            except OSError:
                # No -wal yet, or no longer: look at the file until there is one.
                return False
            self._is_armed = True
        return True

    def _notify(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[bool]") -> Callable[[], None]:
        inotify = self._inotify
        if inotify is None:
            raise RuntimeError("the watch was closed while somebody waited on it")

        def readable() -> None:
            seen, ended = inotify.read()
            if ended:
                self._is_armed = False
            if seen:
                set_once(future)

        loop.add_reader(inotify.descriptor, readable)
        return lambda: _no_answer(loop.remove_reader(inotify.descriptor))

    def _look_again(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[bool]") -> Callable[[], None]:
        handle: asyncio.TimerHandle | None = None

        def glance() -> None:
            nonlocal handle
            now = self._state()
            if now != self._glance:
                self._glance = now
                set_once(future)
            else:
                handle = loop.call_later(_GLANCE, glance)

        glance()
        return lambda: handle.cancel() if handle else None

    def _state(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size


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


def _expire(future: "asyncio.Future[bool]") -> None:
    if not future.done():
        future.set_result(False)


def _no_answer(_: object) -> None:
    return None
