"""Connections to a SQLite file: how they are opened, and how the write lock is waited for.

With `errors.py` the only place that imports the driver. Never opens the database, its -wal or its -shm by any other
way: closing such a descriptor would drop this process's own locks.

A signal handler may raise in the middle of anything here. So nothing is noted down that an interrupt could leave
wrong: whether a verb is under way is asked of its coroutine, and whether a transaction is open of SQLite.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from tinyjobs.backends.sql.connection import Parameters, Row, Verb
from tinyjobs.backends.sql.statements import Statement
from tinyjobs.backends.sqlite import forks
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
# For how many seconds a look at which file stands there holds: in a burst, asking the system for each verb would cost a
# tenth of it, and a file may be replaced between the look and the write anyway.
_TRUSTED = 0.002
# For how many seconds after somebody else's commit a writer reckons with company.
_COMPANY = 5.0
# How long a close waits for what another thread runs on the connection, before it is told to stop.
_CLOSING = 1.0


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
    #: For who only looks: the file stays in whatever journal mode it is.
    keeps_journal: bool = False

    def patience_ends(self, began: float) -> float:
        """Until when a wait that began then may go on."""
        ends = began + self.busy_timeout
        return ends if self.deadline is None else min(ends, self.deadline)


class SqliteConnection:
    """One `sqlite3` connection in autocommit mode, behind the interface the verbs use.

    Opened when it is first used. A fork and the end of the process close it, unless it is in use at that moment, and
    the next use opens it again; one in memory is its store and stays.
    """

    def __init__(self, settings: SqliteSettings, *, memory: bool = False) -> None:
        self._settings = settings
        self._memory = memory
        #: Held for the length of a verb. Reentrant, since a signal handler may call on top of one.
        self.lock = threading.RLock()
        self._raw: sqlite3.Connection | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._verb: Coroutine[Any, Any, Any] | None = None
        self._is_closed = False
        #: Whether write transactions leave the lock to others for as long as they held it; for a worker's writer.
        self.gives_way = False
        self._waits = True
        self._held_since = 0.0
        self._off_until = 0.0
        self._others_until = 0.0
        self._version = -1
        self._openings = 0
        self._file: tuple[int, int] | None = None
        self._checked = -_TRUSTED
        forks.know(self)
        if memory:
            self._open()

    def _open(self) -> None:
        try:
            raw = self._raw = sqlite3.connect(
                self._settings.path,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                uri=self._settings.uri,
                cached_statements=256,
            )
            self._finalizer = weakref.finalize(self, forks.close_own, raw, os.getpid())
            # At the end of the process `forks` decides: another thread may be in the middle of a statement.
            self._finalizer.atexit = False
            if forks.is_ending:
                forks.keep_for_ever(raw)
            self._openings += 1
            self._prepare()
        except sqlite3.Error as error:
            raise translate(error, self._settings.path) from error
        except BaseException:
            self.shut()
            raise

    def _prepare(self) -> None:
        """Set what a connection needs; switch the file to WAL unless it is in memory."""
        # Each reads the file's header, which somebody else may be about to change.
        self._patiently(f"PRAGMA synchronous = {self._settings.synchronous}")
        self._patiently("PRAGMA foreign_keys = ON")
        if not self._memory:
            ((mode,),) = self._patiently("PRAGMA journal_mode")
            if mode.lower() != "wal" and not self._settings.keeps_journal:
                # Needs the file for itself, and SQLite answers "locked" at once instead of waiting.
                self._patiently("PRAGMA journal_mode = WAL")
            self._file = self._file or self._file_now()

    def _check_file(self) -> None:
        """Raise where the file is no longer the one that is open here: nobody else would see what happens in it.

        To open the new one is no way out: this process may have more connections to the old one, and two files of one
        name in one process would take each other's locks away.
        """
        now = self._settings.clock.monotonic()
        if self._file is None or now - self._checked < _TRUSTED:
            return
        if (found := self._file_now()) == self._file:
            self._checked = now
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
        """Close it for good, after what runs on it. What takes more than a second is told to stop, and closes it."""
        self._is_closed = True
        if self.lock.acquire(timeout=_CLOSING):
            try:
                if not self.is_in_use:
                    self.shut()
            finally:
                self.lock.release()
        elif (raw := self._raw) is not None:
            with contextlib.suppress(sqlite3.Error):
                raw.interrupt()

    @property
    def is_in_use(self) -> bool:
        """Whether a verb is under way. To be asked by who has the lock; then it is one of the same thread."""
        return bool(getattr(self._verb, "cr_running", False))

    @property
    def may_be_shut(self) -> bool:
        """Whether it can be opened again, with all that is in it."""
        return not self._memory

    def shut(self) -> None:
        """Close it until it is used again. By who has the lock, and not in the middle of a verb."""
        raw, finalizer = self._raw, self._finalizer
        self._raw = self._finalizer = None
        if raw is not None:
            raw.close()
        if finalizer is not None:
            finalizer.detach()

    def abandon(self) -> None:
        """Leave what is open to the operating system, at the end of the process."""
        if (raw := self._raw) is not None:
            forks.keep_for_ever(raw)

    def renew_in_child(self) -> None:
        """In a forked child: have a lock that no thread of the parent's holds, and leave alone what is open."""
        self.lock = threading.RLock()
        self._verb = None
        if self.may_be_shut and self._raw is not None:
            forks.keep_for_ever(self._raw)
            self._raw = self._finalizer = None

    async def perform[T](self, verb: Verb[T]) -> T:
        """Run a verb. A transaction that an interrupt left open in an earlier one is rolled back first.

        A signal handler may call while a verb is under way on its thread; such a call becomes a part of that verb.
        """
        while True:
            with self.lock:
                if self.is_in_use:
                    return await verb(self)
                if not forks.must_wait():
                    return await self._perform_alone(verb)
            forks.wait()

    async def _perform_alone[T](self, verb: Verb[T]) -> T:
        if self._is_closed:
            raise StoreUnavailableError(f"{self._settings.path}: the connection was closed.")
        self._check_file()
        if self._raw is None:
            self._open()
        before, coroutine = self._verb, None
        try:
            self._heal()
            coroutine = self._verb = verb(self)
            return await coroutine
        except StoreError as error:
            # With the error everything is undone, so the verb can be run once more from its beginning.
            if not self._reads_spoilt_text_after(error):
                raise
        finally:
            self._verb = before
            if coroutine is not None:
                coroutine.close()  # one that an interrupt kept from beginning
            self._leave()
        return await self._perform_alone(verb)

    def _leave(self) -> None:
        """Leave nothing open that an interrupt may have cut short, and no connection that nobody would close."""
        if self._raw is not None:
            self._heal()
            if self._is_closed or (forks.is_ending and self.may_be_shut):
                self.shut()

    def _reads_spoilt_text_after(self, error: StoreError) -> bool:
        """Whether an error came of a text that is not UTF-8, as a hand may have left it, and from here on none will.

        The driver refuses every row it is asked for together with such a one, so that no claim would ever succeed.
        """
        raw = self._raw
        if raw is None or not is_undecodable(error) or raw.text_factory is not str:
            return False
        logger.error("%s Such texts are read with question marks from here on.", error)
        raw.text_factory = lambda text: text.decode(errors="replace")
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
        """A number that changes when another connection committed to the file. Reads only.

        Another one as well when this connection was opened anew, since SQLite counts for each.
        """
        ((version,),) = self._now("PRAGMA data_version")
        return (self._openings << 32) + int(version)

    async def fetch(self, statement: Statement, parameters: Parameters = ()) -> list[Row]:
        """See `Connection.fetch`."""
        return self._patiently(statement.qmark, parameters)

    async def execute(self, statement: Statement, parameters: Parameters = ()) -> int:
        """See `Connection.execute`."""
        try:
            return self._driver.execute(statement.qmark, parameters).rowcount
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            if self._in_transaction or not is_busy(error):
                raise translate(error, self._settings.path) from error
        self._patiently(statement.qmark, parameters)
        ((changed,),) = self._now("SELECT changes()")
        return int(changed)

    async def many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        """See `Connection.many`."""
        try:
            return self._driver.executemany(statement.qmark, rows).rowcount
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise translate(error, self._settings.path) from error

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A write transaction that takes the lock first; inside another one, a part of it."""
        return _Transaction(self)

    def begin(self) -> bool:
        """Begin a write transaction, once the lock is there; False: inside another one, there is nothing to begin."""
        if self._in_transaction:
            return False
        self._give_way()
        self._patiently("BEGIN IMMEDIATE")
        self._held_since = self._settings.clock.monotonic()
        self._note_others(self._held_since)
        return True

    def end(self, *, commits: bool) -> None:
        """End it."""
        try:
            if commits:
                self._now("COMMIT")
                now = self._settings.clock.monotonic()
                self._off_until = now + min(now - self._held_since, _LONGEST_REST)
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
    def _driver(self) -> sqlite3.Connection:
        if self._raw is None:
            raise StoreUnavailableError(f"{self._settings.path}: the connection was closed.")
        return self._raw

    @property
    def _in_transaction(self) -> bool:
        try:
            return self._driver.in_transaction
        except sqlite3.Error as error:
            raise translate(error, self._settings.path) from error

    def _heal(self) -> None:
        """End a transaction that an error or an interrupt left open."""
        if self._in_transaction:
            self._driver.rollback()

    def _now(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        try:
            return self._driver.execute(sql, parameters).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise translate(error, self._settings.path) from error

    def _patiently(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement, waiting for the lock up to the busy timeout or the store's deadline."""
        began = self._settings.clock.monotonic()
        pauses = chain(_PAUSES, repeat(_PAUSES[-1]))
        while True:
            try:
                return self._now(sql, parameters)
            except StoreBusyError:
                if self._in_transaction or not self._waits or self._is_closed:
                    raise
                if self._settings.clock.monotonic() >= self._settings.patience_ends(began):
                    raise
                threading.Event().wait(next(pauses))


class _Transaction:
    """The block of a transaction. Not a generator, whose clean-up an interrupt could put off to any later moment."""

    __slots__ = ("_connection", "_has_begun")

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._has_begun = False

    async def __aenter__(self) -> None:
        self._has_begun = self._connection.begin()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._has_begun:
            self._connection.end(commits=kind is None)
