"""Tells a waiting worker that the file may have changed, without a write and nearly without work.

In this process an enqueue nudges the waiters. Across processes inotify reports writes to the `-wal` file; where the
system has no inotify, or it proves deaf on this file system, the file's size and time are looked at every few
milliseconds. Neither is trusted: a hint leads to a read, and the worker polls besides.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import Callable

from tinyjobs.backends.sqlite.inotify import Inotify

logger = logging.getLogger("tinyjobs.sqlite")

_GLANCE = 0.015


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
