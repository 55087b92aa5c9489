"""Connections to a SQLite file: how they are opened, how the write lock is waited for, and who runs a verb on which.

Three runners: on a connection of the calling thread, on the store's own thread (for event loops), and on the one
shared connection of a store in memory. With `errors.py` the only place that imports the driver. Never opens the
database, its -wal or its -shm by any other way: closing such a descriptor would drop this process's own locks.
"""

import asyncio
import sqlite3
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from tinyjobs.backends.sql.connection import Connection, Parameters, Row, Verb
from tinyjobs.backends.sql.statements import Statement
from tinyjobs.backends.sqlite.errors import is_busy, translate
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import StoreBusyError, StoreUnavailableError
from tinyjobs.core.inline import finish

#: The first SQLite that can answer rows from an UPDATE, and the first one supported at all (upserts from a SELECT).
RETURNING_VERSION = (3, 35, 0)
OLDEST_VERSION = (3, 33, 0)
# SQLite's own wait cannot be interrupted, so it is taken in slices and the end of our patience looked at in between.
_SLICE_MS = 100


def library_version() -> tuple[int, ...]:
    """The version of the SQLite library in this process."""
    return sqlite3.sqlite_version_info


@dataclass(slots=True)
class SqliteSettings:
    """How connections to one file behave. `deadline` (clock.monotonic) ends every wait for the lock early."""

    path: str
    uri: bool = False
    busy_timeout: float = 5.0
    synchronous: str = "NORMAL"
    clock: Clock = field(default_factory=SystemClock)
    deadline: float | None = None

    def patience_ends(self, began: float) -> float:
        """Until when a wait that began then may go on."""
        ends = began + self.busy_timeout
        return ends if self.deadline is None else min(ends, self.deadline)


class SqliteConnection:
    """One `sqlite3` connection in autocommit mode, behind the interface the verbs use."""

    def __init__(self, settings: SqliteSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        try:
            self._raw = sqlite3.connect(
                settings.path,
                timeout=_SLICE_MS / 1000,
                isolation_level=None,
                check_same_thread=False,
                uri=settings.uri,
                cached_statements=256,
            )
        except sqlite3.Error as error:
            raise translate(error, settings.path) from error
        weakref.finalize(self, self._raw.close)
        self._in_transaction = False

    def prepare(self, *, memory: bool = False) -> None:
        """Set what a connection needs; switch the file to WAL unless it is in memory."""
        self._now(f"PRAGMA synchronous = {self._settings.synchronous}")
        self._now("PRAGMA foreign_keys = ON")
        if not memory:
            ((mode,),) = self._now("PRAGMA journal_mode")
            if mode.lower() != "wal":
                # Needs the file for itself, and SQLite answers "locked" at once instead of waiting.
                self._patiently("PRAGMA journal_mode = WAL")

    def close(self) -> None:
        """Close it, after whatever runs on it."""
        with self._lock:
            self._raw.close()

    def data_version(self) -> int:
        """A number that changes when another connection committed to the file. Reads only."""
        ((version,),) = self._now("PRAGMA data_version")
        return int(version)

    async def fetch(self, statement: Statement, parameters: Parameters = ()) -> list[Row]:
        """See `Connection.fetch`."""
        return self._patiently(statement.qmark, parameters)

    async def execute(self, statement: Statement, parameters: Parameters = ()) -> int:
        """See `Connection.execute`."""
        with self._lock:
            try:
                return self._raw.execute(statement.qmark, parameters).rowcount
            except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
                if self._in_transaction or not is_busy(error):
                    raise translate(error, self._settings.path) from error
            self._patiently(statement.qmark, parameters)
            ((changed,),) = self._now("SELECT changes()")
            return int(changed)

    async def many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        """See `Connection.many`."""
        with self._lock:
            try:
                return self._raw.executemany(statement.qmark, rows).rowcount
            except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
                raise translate(error, self._settings.path) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """A write transaction that takes the lock first; inside another one, a part of it."""
        if self._in_transaction:
            yield
            return
        with self._lock:
            self._heal()
            self._patiently("BEGIN IMMEDIATE")
            self._in_transaction = True
            try:
                yield
                self._now("COMMIT")
            finally:
                self._in_transaction = False
                self._heal()

    def _heal(self) -> None:
        """End a transaction that an error or an interrupt left open."""
        if self._raw.in_transaction:
            self._raw.rollback()

    def _now(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        try:
            return self._raw.execute(sql, parameters).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise translate(error, self._settings.path) from error

    def _patiently(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement, waiting for the lock in slices up to the busy timeout or the store's deadline."""
        began = self._settings.clock.monotonic()
        with self._lock:
            while True:
                try:
                    return self._now(sql, parameters)
                except StoreBusyError:
                    if self._in_transaction:
                        raise
                    if self._settings.clock.monotonic() >= self._settings.patience_ends(began):
                        raise
                    # Some answers of "locked" come at once rather than after SQLite's own wait.
                    threading.Event().wait(0.002)


class ThreadConnections:
    """A runner on a connection of the calling thread, opened at its first use. Its verbs never suspend."""

    def __init__(self, open_connection: Callable[[], SqliteConnection]) -> None:
        self._open = open_connection
        self._local = threading.local()
        self._all: weakref.WeakSet[SqliteConnection] = weakref.WeakSet()
        self._closed = False

    def connection(self) -> SqliteConnection:
        """This thread's connection."""
        if self._closed:
            raise StoreUnavailableError("The store was closed.")
        connection: SqliteConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._open()
            self._all.add(connection)
        return connection

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb here and now."""
        return await verb(self.connection())

    async def close(self) -> None:
        """Close every thread's connection."""
        self._closed = True
        for connection in list(self._all):
            connection.close()


class OneConnection:
    """A runner on one shared connection, a caller at a time: the store in memory. Its verbs never suspend."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._lock = threading.RLock()

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb while nobody else uses the connection."""
        with self._lock:
            return finish(verb(self._connection))

    async def close(self) -> None:
        """Close it, and with it the store."""
        with self._lock:
            self._connection.close()


class StoreThread:
    """A runner for event loops: verbs run one after another on a thread of the store's own.

    The loop only waits for a future, so a verb that waits for the file's lock holds up nobody else. One connection
    means one writer in this process, which is what SQLite wants anyway.
    """

    def __init__(self, open_connection: Callable[[], SqliteConnection], name: str) -> None:
        self._open = open_connection
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb on the store's thread. A cancelled call that has not begun is dropped; one begun goes on."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._submit(_Call(verb, loop, future))
        return await future

    async def close(self) -> None:
        """Let the thread finish what it was given, close its connection and end."""
        with self._start_lock:
            self._closed = True
            thread = self._thread
        if thread is None:
            return
        self._calls.put(None)
        if thread is not threading.current_thread():
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    def _submit(self, call: "_Call") -> None:
        if self._closed:
            raise StoreUnavailableError("The store was closed.")
        if self._thread is None:
            with self._start_lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                    self._thread.start()
        self._calls.put(call)

    def _serve(self) -> None:
        connection: SqliteConnection | None = None
        while (call := self._calls.get()) is not None:
            if call.future.cancelled():
                continue
            try:
                connection = connection or self._open()
                value = finish(call.verb(connection))
            except BaseException as error:  # noqa: BLE001 - whatever it was belongs to the caller
                call.answer(error=error)
            else:
                call.answer(value)
        if connection is not None:
            connection.close()


@dataclass(slots=True)
class _Call:
    verb: Callable[[Connection], Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"

    def answer(self, value: Any = None, error: BaseException | None = None) -> None:
        try:
            self.loop.call_soon_threadsafe(self._settle, value, error)
        except RuntimeError:
            # The caller's loop is gone; nobody is left to hear it.
            return

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.future.cancelled():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)
