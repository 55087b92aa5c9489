"""Jobs written in a transaction of the caller's: through a `sqlite3` connection that somebody else opened.

The store need not be set up for it. The first call of a process may well be an enqueue inside a transaction, and a
setup on a connection of our own would wait for that transaction's lock. So the tables are looked for through a short
connection that waits for nothing, and where they are missing they are made on the caller's: with the transaction that
is open there, if one is, and then gone if it is rolled back.

The first statement in a caller's transaction is always a write. One that has read cannot write once somebody else has.
"""

import os
from collections.abc import Collection
from dataclasses import replace

from tinyjobs.backends.sql import layout
from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Connection, Verb
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.backends.sqlite.callers import CallersConnection, Raw, raw_of
from tinyjobs.backends.sqlite.connection import SqliteConnection, SqliteSettings
from tinyjobs.backends.sqlite.errors import not_seen
from tinyjobs.backends.sqlite.options import existing_only, file_of
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import (
    ConfigurationError,
    SchemaMissingError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)


class Joining:
    """Where the store is, and whether its tables are known to be there. `suits`: asked before the first is made."""

    def __init__(self, statements: Statements, settings: SqliteSettings, suits: Verb[None]) -> None:
        self._statements = statements
        self._suits = suits
        self.where = settings.path
        self._looking = replace(settings, path=existing_only(settings.path), uri=True, busy_timeout=0.0)
        self._file = os.path.realpath(file_of(settings.path))
        # The names by which callers' connections called that very file.
        self._names: set[str] = set()
        #: Set once they were found outside of any transaction: what a transaction made can be rolled back with it.
        self.is_laid_out = False

    def store(self, tx: object, dialect: Dialect, clock: Clock) -> SqlBackend:
        """The store as a caller's transaction sees it."""
        return _JoinedStore(dialect, _JoinedRunner(self, raw_of(tx)), clock=clock)

    def connection(self, raw: Raw) -> CallersConnection:
        """The caller's connection for one verb."""
        return CallersConnection(raw, self.where, self._statements["take_lock"])

    def make_sure(self, connection: CallersConnection) -> None:
        """Raise `ConfigurationError` for a connection to another file: a job in there is committed with nothing."""
        name = connection.file()
        if name in self._names:
            return
        if not name or os.path.realpath(name) != self._file:
            found = name or "a database in memory"
            raise ConfigurationError(
                f"tx: this connection is open on {found}, and the jobs are kept in {file_of(self.where)}. Give a "
                f"connection to that file, or point the app at the file of your own tables."
            )
        self._names.add(name)

    async def lay_out(self, connection: CallersConnection) -> None:
        """Have the tables there for whoever writes on this connection."""
        if self.is_laid_out:
            return
        if await self._is_complete():
            self.is_laid_out = True
        elif connection.is_in_transaction:
            async with connection.transaction():
                await self._install(connection)
        else:
            connection.try_wal()
            async with connection.own_transaction():
                await self._install(connection)
            self.is_laid_out = True

    async def _is_complete(self) -> bool:
        """Whether all of the tables can be seen from outside, as far as can be told without waiting."""
        try:
            connection = SqliteConnection(self._looking)
            try:
                return await connection.perform(self._look)
            finally:
                connection.close()
        except (StoreBusyError, StoreUnavailableError):
            return False

    async def _look(self, connection: Connection) -> bool:
        return await layout.is_complete(connection, self._statements, self.where)

    async def _install(self, connection: CallersConnection) -> None:
        made = await self._take_lock(connection)
        await layout.install(connection, self._statements, self.where, suits=self._suits, just_made=made)

    async def _take_lock(self, connection: CallersConnection) -> Collection[str]:
        """Take the write lock by the first statement; the tables that this had to make."""
        try:
            await connection.execute(self._statements["take_lock"])
        except SchemaMissingError:
            try:
                await connection.execute(layout.meta_ddl(self._statements))
            except StoreError:
                # Somebody else was faster, and it is there by now.
                await connection.execute(self._statements["take_lock"])
            else:
                return (f"{self._statements.prefix}_meta",)
        return ()


class _JoinedRunner:
    """Runs verbs on one connection of the caller's, in whatever transaction is open there."""

    def __init__(self, joining: Joining, raw: Raw) -> None:
        self._joining = joining
        self._raw = raw

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb here and now, in the caller's thread."""
        joining = self._joining
        connection = joining.connection(self._raw)
        with connection.in_use():
            joining.make_sure(connection)
            await joining.lay_out(connection)
            try:
                return await verb(connection)
            except SchemaMissingError:
                # Taken away since, or rolled back with a transaction that had made them.
                joining.is_laid_out = False
            await joining.lay_out(connection)
            try:
                return await verb(connection)
            except SchemaMissingError as error:
                raise not_seen(error, joining.where) from error

    async def close(self) -> None:
        """The connection is not ours to close."""


class _JoinedStore(SqlBackend):
    def __init__(self, dialect: Dialect, runner: _JoinedRunner, *, clock: Clock) -> None:
        super().__init__(dialect, runner, clock=clock)

    async def _added(self, queues: Collection[str] = ()) -> None:
        """Nobody is told: before the commit there is nothing to see, and when that comes is not known here."""
