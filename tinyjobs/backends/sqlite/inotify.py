"""The part of Linux's inotify that the watch needs, by ctypes. Only this module knows the system's numbers.

It watches by path and opens nothing: a descriptor on a database file, once closed, would drop this process's own
SQLite locks on it.
"""

import ctypes
import os
import sys

_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC if hasattr(os, "O_CLOEXEC") else 0
MODIFY, MOVE_SELF, DELETE_SELF, IGNORED = 0x2, 0x800, 0x400, 0x8000
# Enough for many events at once; which ones they were does not matter, only that there were some.
_BUFFER = 64 * 1024


class Inotify:
    """One inotify instance. Raises `OSError` where the system has none."""

    def __init__(self) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError("inotify is a part of Linux")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor: int = self._checked(self._libc.inotify_init1(_NONBLOCK_CLOEXEC))

    def watch(self, path: str) -> None:
        """Report changes of the file from now on, until it is deleted or replaced."""
        mask = MODIFY | MOVE_SELF | DELETE_SELF
        self._checked(self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), mask))

    def read(self) -> tuple[bool, bool]:
        """Take every event there is, without waiting: whether there were any, and whether the watch has ended."""
        seen = ended = False
        while True:
            try:
                data = os.read(self.descriptor, _BUFFER)
            except BlockingIOError:
                return seen, ended
            seen = True
            offset = 0
            while offset < len(data):
                mask = int.from_bytes(data[offset + 4 : offset + 8], sys.byteorder)
                length = int.from_bytes(data[offset + 12 : offset + 16], sys.byteorder)
                ended = ended or bool(mask & (IGNORED | MOVE_SELF | DELETE_SELF))
                offset += 16 + length

    def close(self) -> None:
        """Let go of the instance."""
        os.close(self.descriptor)

    @staticmethod
    def _checked(answer: int) -> int:
        if answer < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return answer
