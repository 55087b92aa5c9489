"""A `sqlite3` connection that somebody else opened, behind the interface that the SQL verbs use.

Nothing of it is changed: not its settings, not its transaction. A verb runs in the caller's thread, and waits for locks
as long as the connection's own `timeout` says.
"""

import sqlite3
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

from tinyjobs.backends.sql.connection import Parameters, Row
from tinyjobs.backends.sql.statements import Statement
from tinyjobs.backends.sqlite.errors import translate_in_transaction
from tinyjobs.core.errors import ConfigurationError, StoreBusyError

type Raw = sqlite3.Connection


def raw_of(tx: object) -> Raw:
    """The connection that a caller gave as it is or by a cursor of it."""
    raw = tx.connection if isinstance(tx, sqlite3.Cursor) else tx
    if isinstance(raw, sqlite3.Connection):
        return raw
    kind = f"{type(tx).__module__}.{type(tx).__qualname__}"
    raise ConfigurationError(
        f"tx: a {kind} is no connection of sqlite3. Give a sqlite3.Connection, or a cursor of one."
    )


class CallersConnection:
    """One connection of a caller's, for one verb. `take_lock` is a statement that writes without changing anything."""

    def __init__(self, raw: Raw, where: str, take_lock: Statement) -> None:
        self._raw = raw
        self._where = where
        self._take_lock = take_lock

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Around everything done with it."""
        before = self._raw.text_factory
        if before is str:
            yield
            return
        self._raw.text_factory = str
        try:
            yield
        finally:
            self._raw.text_factory = before

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open. With the driver's own control of them, the next write may open one."""
        return self._raw.in_transaction

    def file(self) -> str:
        """The file that is open, as SQLite names it; empty for a database in memory. The first thing to be asked."""
        with self._errors():
            rows: list[Row] = self._run("PRAGMA database_list").fetchall()
        return next((str(path or "") for _, name, path in rows if name == "main"), "")

    async def fetch(self, statement: Statement, parameters: Parameters = ()) -> list[Row]:
        """See `Connection.fetch`."""
        with self._errors():
            return self._run(statement.qmark, parameters).fetchall()

    async def execute(self, statement: Statement, parameters: Parameters = ()) -> int:
        """See `Connection.execute`."""
        with self._errors():
            return self._run(statement.qmark, parameters).rowcount

    async def many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        """See `Connection.many`."""
        with self._errors():
            return sqlite3.Cursor(self._raw).executemany(statement.qmark, rows).rowcount

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """A savepoint in the caller's transaction; where none is open and the driver opens none, a transaction."""
        if not self.is_in_transaction:
            # Opens the caller's transaction, where the connection is such that a write does: else the savepoint would
            # be the whole of it, and end in a commit.
            await self.execute(self._take_lock)
        self._now("SAVEPOINT tinyjobs")
        try:
            yield
        except BaseException:
            # Some errors end the whole transaction by themselves.
            if self.is_in_transaction:
                self._now("ROLLBACK TO tinyjobs")
                self._now("RELEASE tinyjobs")
            raise
        self._now("RELEASE tinyjobs")

    @asynccontextmanager
    async def own_transaction(self) -> AsyncGenerator[None]:
        """A write transaction from its beginning to its commit, where none is open."""
        self._now("BEGIN IMMEDIATE")
        try:
            yield
            self._now("COMMIT")
        except BaseException:
            if self.is_in_transaction:
                self._now("ROLLBACK")
            raise

    def try_wal(self) -> None:
        """Switch the file to WAL, if nobody else has it open at this moment. Outside of a transaction."""
        try:
            self._now("PRAGMA journal_mode = WAL")
        except StoreBusyError:
            return

    def _now(self, sql: str) -> None:
        with self._errors():
            self._run(sql).fetchall()

    def _run(self, sql: str, parameters: Parameters = ()) -> sqlite3.Cursor:
        # A cursor of our own: the caller's may answer other things than tuples.
        return sqlite3.Cursor(self._raw).execute(sql, parameters)

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise translate_in_transaction(error, self._where) from error
