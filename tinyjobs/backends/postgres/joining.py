"""Jobs written in a transaction of the caller's: through a psycopg connection that somebody else opened.

Nothing of that connection is changed, neither its settings nor its transaction. What is made sure of first is that it
reaches the very database the store is in, or the job would be committed where no worker looks.
"""

import weakref
from collections.abc import Collection
from dataclasses import dataclass

from tinyjobs.backends.postgres.connection import CallersConnection, Raw, raw_of
from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Connection, Verb
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Identity:
    """Which store a connection reaches. `system` is the server's own number, None where it may not be read."""

    database: str
    oid: int
    system: str | None
    instance: str


class Joining:
    """Which store this is, once it is set up, and which callers' connections are known to reach it."""

    def __init__(self, statements: Statements, where: str) -> None:
        self._statements = statements
        self._where = where
        self._identity: Identity | None = None
        self._known: weakref.WeakSet[Raw] = weakref.WeakSet()

    async def learn(self, connection: Connection) -> None:
        """Read the store's identity, through a connection of its own."""
        self._identity = await self._read(connection, None)

    def store(self, tx: object, dialect: Dialect, clock: Clock, *, awaits: bool) -> SqlBackend:
        """The store as a caller's transaction sees it. `awaits`: the caller is a coroutine, else a thread."""
        return _JoinedStore(dialect, _JoinedRunner(self, raw_of(tx, awaits=awaits), self._where), clock=clock)

    async def make_sure(self, connection: CallersConnection, raw: Raw) -> None:
        """Raise `ConfigurationError` for a connection to another store. Asked once for each connection."""
        if raw in self._known:
            return
        own = self._identity
        if own is None:
            raise ConfigurationError(
                f"{self._where} is not set up yet, so nothing can join a transaction: call setup()."
            )
        found = await self._read(connection, own)
        if found != own:
            raise ConfigurationError(
                f"tx: this connection reaches the database {found.database!r} ({connection.address()}), and the jobs "
                f"are kept in {own.database!r} ({self._where}), which is another store. Give a connection to that one."
            )
        self._known.add(raw)

    async def _read(self, connection: Connection, expected: Identity | None) -> Identity:
        """Who is there. What tells another database apart is read before what is found in the right one alone."""
        ((database, oid, may_ask, has_meta),) = await connection.fetch(
            self._statements["identity"], [f"{self._statements.prefix}_meta"]
        )
        if expected is not None and (oid != expected.oid or not has_meta):
            return Identity(database, oid, None, "")
        system = None
        if may_ask and (expected is None or expected.system is not None):
            ((system,),) = await connection.fetch(self._statements["system"])
        rows: dict[str, str] = dict(await connection.fetch(self._statements["meta"]))
        if expected is not None and system is None:
            system = expected.system
        return Identity(database, oid, system, rows.get("instance", ""))


class _JoinedRunner:
    """Runs verbs on one connection of the caller's, in whatever transaction is open there. Nothing is tried again."""

    def __init__(self, joining: Joining, raw: Raw, where: str) -> None:
        self._joining = joining
        self._raw = raw
        self._where = where

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb here and now, in the thread or on the loop of the caller."""
        connection = CallersConnection(self._raw, self._where)
        async with connection.in_use():
            await self._joining.make_sure(connection, self._raw)
            return await verb(connection)

    async def close(self) -> None:
        """The connection is not ours to close."""


class _JoinedStore(SqlBackend):
    def __init__(self, dialect: Dialect, runner: _JoinedRunner, *, clock: Clock) -> None:
        super().__init__(dialect, runner, clock=clock, by_server=True)

    async def _added(self, queues: Collection[str] = ()) -> None:
        """Nobody is told: before the commit there is nothing to see, and when that comes is not known here."""
