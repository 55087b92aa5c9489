"""Holds the write lock of a SQLite file, as a long transaction of somebody else does."""

import sqlite3


class WriteLock:
    """Taken by `take`, held until `release`; both in one thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def take(self) -> None:
        """Wait for the lock and hold it."""
        self._connection = sqlite3.connect(self._path, timeout=60.0, isolation_level=None)
        self._connection.execute("BEGIN IMMEDIATE")

    def release(self) -> None:
        """Let others write again."""
        if self._connection is not None:
            self._connection.rollback()
            self._connection.close()
            self._connection = None
