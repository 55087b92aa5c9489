"""Connections to a SQLite file: how they are opened, and how the write lock is waited for.

With `errors.py` the only place that imports the driver. Never opens the database, its -wal or its -shm by any other
way: closing such a descriptor would drop this process's own locks.
"""

import ctypes
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from tinyjobs.backends.sql.connection import Parameters, Row, Verb
from tinyjobs.backends.sql.statements import Statement
from tinyjobs.backends.sqlite.errors import is_busy, is_undecodable, translate
from tinyjobs.backends.sqlite.options import file_of
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import StoreBusyError, StoreError, StoreReplacedError, StoreUnavailableError

logger = logging.getLogger("tinyjobs.store")

# SQLite's own wait cannot be interrupted or cut, so it is never used: a locked file is tried again after these pauses,
# the last of them over and over, until the end of our patience.
_PAUSES = (0.001, 0.002, 0.005, 0.01)
# The longest time a worker's writer leaves the lock to others between two of its transactions.
_LONGEST_REST = 0.005
# For how many seconds after somebody else's commit a writer reckons with company.
_COMPANY = 5.0


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


def _close(raw: sqlite3.Connection, process: int) -> None:
    """Close a connection nobody refers to any more; in a forked child keep it as it is, for ever.

    A child must not close what it inherited, and a thread of the parent's may have held SQLite's own locks when it
    forked: then the close would never return. It is called in the child during the fork itself, for the connections
    of threads that are not there any more.
    """
    if os.getpid() == process:
        raw.close()
    else:
        # One reference too many, so that not even the end of the interpreter closes it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(raw))


class SqliteConnection:
    """One `sqlite3` connection in autocommit mode, behind the interface the verbs use."""

    def __init__(self, settings: SqliteSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        try:
            self._raw = sqlite3.connect(
                settings.path,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                uri=settings.uri,
                cached_statements=256,
            )
        except sqlite3.Error as error:
            raise translate(error, settings.path) from error
        self._process = os.getpid()
        weakref.finalize(self, _close, self._raw, self._process)
        self._verb: Coroutine[Any, Any, Any] | None = None
        #: Whether write transactions leave the lock to others for as long as they held it; for a worker's writer.
        self.gives_way = False
        self._waits = True
        self._off_until = 0.0
        self._others_until = 0.0
        self._version = -1
        self._file: tuple[int, int] | None = None

    def prepare(self, *, memory: bool = False) -> None:
        """Set what a connection needs; switch the file to WAL unless it is in memory."""
        # Each reads the file's header, which somebody else may be about to change.
        self._patiently(f"PRAGMA synchronous = {self._settings.synchronous}")
        self._patiently("PRAGMA foreign_keys = ON")
        if not memory:
            ((mode,),) = self._patiently("PRAGMA journal_mode")
            if mode.lower() != "wal":
                # Needs the file for itself, and SQLite answers "locked" at once instead of waiting.
                self._patiently("PRAGMA journal_mode = WAL")
            self._file = self._file_now()

    def _check_file(self) -> None:
        """Raise where the file is no longer the one that is open here: nobody else would see what happens in it.

        To open the new one is no way out: this process may have more connections to the old one, and two files of one
        name in one process would take each other's locks away.
        """
        if self._file is None or (found := self._file_now()) == self._file:
            return
        if found is None:
            raise StoreUnavailableError(f"{self._settings.path}: the file was removed while it was in use.")
        raise StoreReplacedError(
            f"{self._settings.path}: the file was replaced by another one while it was in use, so this process has to "
            f"be started again. Stop whatever uses the file before you replace it."
        )

    def _file_now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(file_of(self._settings.path))  # not opened: see above
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Close it, after whatever runs on it."""
        if self._process == os.getpid():
            with self._lock:
                self._raw.close()

    async def perform[T](self, verb: Verb[T]) -> T:
        """Run a verb. A transaction that an interrupt left open in an earlier one is rolled back first.

        A signal handler may call while a verb is under way on its thread; such a call becomes a part of that verb.
        """
        if not getattr(self._verb, "cr_running", False):
            self._check_file()
            self._heal()
        coroutine = verb(self)
        before, self._verb = self._verb, coroutine
        try:
            return await coroutine
        except StoreError as error:
            # With the error everything is undone, so the verb can be run once more from its beginning.
            if before is not None or not self._reads_spoilt_text_after(error):
                raise
        finally:
            self._verb = before
        return await self.perform(verb)

    def _reads_spoilt_text_after(self, error: StoreError) -> bool:
        """Whether an error came of a text that is not UTF-8, as a hand may have left it, and from here on none will.

        The driver refuses every row it is asked for together with such a one, so that no claim would ever succeed.
        """
        if not is_undecodable(error) or self._raw.text_factory is not str:
            return False
        logger.error("%s Such texts are read with question marks from here on.", error)
        self._raw.text_factory = lambda text: text.decode(errors="replace")
        return True

    @contextmanager
    def without_waiting(self) -> Generator[None]:
        """Raise `StoreBusyError` at once in this block where the lock would have to be waited for."""
        self._waits = False
        try:
            yield
        finally:
            self._waits = True

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
            self._give_way()
            clock = self._settings.clock
            try:
                self._patiently("BEGIN IMMEDIATE")
                held_since = clock.monotonic()
                self._note_others(held_since)
                yield
                self._now("COMMIT")
                now = clock.monotonic()
                self._off_until = now + min(now - held_since, _LONGEST_REST)
            finally:
                self._heal()

    def _note_others(self, now: float) -> None:
        if not self.gives_way:
            return
        before, self._version = self._version, self.data_version()
        if before not in (-1, self._version):
            self._others_until = now + _COMPANY

    def _give_way(self) -> None:
        """Stay off the lock for as long as it was held: writers that follow each other at once starve all others.

        Only where there are others: a connection that nobody else has committed beside for a while need not wait.
        """
        if not self.gives_way or self._off_until >= self._others_until:
            return
        if (rest := self._off_until - self._settings.clock.monotonic()) > 0:
            if not self._waits:
                raise StoreBusyError(f"{self._settings.path}: the lock is left to others for a moment.")
            threading.Event().wait(rest)

    @property
    def _in_transaction(self) -> bool:
        try:
            return self._raw.in_transaction
        except sqlite3.Error as error:
            raise translate(error, self._settings.path) from error

    def _heal(self) -> None:
        """End a transaction that an error or an interrupt left open."""
        if self._in_transaction:
            self._raw.rollback()

    def _now(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        try:
            return self._raw.execute(sql, parameters).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise translate(error, self._settings.path) from error

    def _patiently(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement, waiting for the lock up to the busy timeout or the store's deadline."""
        began = self._settings.clock.monotonic()
        pauses = chain(_PAUSES, repeat(_PAUSES[-1]))
        with self._lock:
            while True:
                try:
                    return self._now(sql, parameters)
                except StoreBusyError:
                    if self._in_transaction or not self._waits:
                        raise
                    if self._settings.clock.monotonic() >= self._settings.patience_ends(began):
                        raise
                    threading.Event().wait(next(pauses))
