"""SQLite stores for tests: a fresh file, somebody else who holds its write lock, and ways to look inside."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinyjobs.backends.base import Backend
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.backends.sqlite.connection import SqliteConnection
from tinyjobs.core.clock import Clock, FrozenClock
from tinyjobs.core.ids import IdSource
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job

_ids = IdSource()


def make_job(clock: Clock, **values: Any) -> Job:
    now = clock.now()
    values = {"run_at": now, "created_at": now, "payload": b"{}", "max_attempts": 3, **values}
    return Job(**{"id": _ids.make(now), "task": "shop.tasks.pack", **values})


def make_store(path: Path, **options: Any) -> SQLiteBackend:
    """A store in a file, set up."""
    store = SQLiteBackend(str(path), **{"clock": FrozenClock(), **options})
    finish(store.inline().setup())
    return store


def request(limit: int = 1, **values: Any) -> ClaimRequest:
    return ClaimRequest(**{"worker_id": "worker-1", "limit": limit, "lease": 60.0, **values})


def connection_of(inline: Backend) -> SqliteConnection:
    """The connection that this thread's verbs run on."""
    return inline._runner.connection()  # type: ignore[attr-defined]


@contextmanager
def write_lock_held(path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else holds the file's write lock meanwhile; by a driver connection of its own."""
    other = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield other
    finally:
        if other.in_transaction:
            other.rollback()
        other.close()


class WatchedClock:
    """The real time for waits, and a sign when somebody begins to wait."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._ticks = 0.0

    def monotonic(self) -> float:
        # Every look moves it on by a tenth of a second, which is what one slice of waiting takes.
        self.asked.set()
        self._ticks += 0.1
        return self._ticks
