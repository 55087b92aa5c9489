"""A psycopg connection behind the interface that the SQL verbs use: one of a pool, or a caller's own.

The same class serves synchronous and asynchronous connections: over a synchronous one nothing suspends. With
`errors.py`, the pools and `listener.py` the only place that imports the driver.
"""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from inspect import isawaitable
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.postgres import register_default_adapters, register_default_types
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types import TypesRegistry
from psycopg.types.array import register_all_arrays

from tinyjobs.backends.postgres.errors import translate
from tinyjobs.backends.sql.connection import Parameters, Row
from tinyjobs.backends.sql.statements import Statement, make_statement
from tinyjobs.core.errors import ConfigurationError, StoreError, StoreUnavailableError

type Raw = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

# Values are read and written as the driver does by itself, whatever the program has registered with it.
_ADAPTERS = AdaptersMap(types=TypesRegistry())
register_default_types(_ADAPTERS.types)
register_default_adapters(_ADAPTERS)
register_all_arrays(_ADAPTERS)
_BEGIN = make_statement("begin", "SELECT 1")


class _Cursor(psycopg.Cursor[Row]):
    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


class _AsyncCursor(psycopg.AsyncCursor[Row]):
    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


class PostgresConnection:
    """One connection, used by one caller at a time."""

    __slots__ = ("_cursor", "_prepare", "_raw", "_where")

    def __init__(self, raw: Raw, where: str, *, prepare: bool | None = True) -> None:
        self._raw = raw
        self._where = where
        self._prepare = prepare
        # A cursor of our own: the caller's may answer other things than tuples, or bind on the client.
        self._cursor: Any
        if isinstance(raw, psycopg.Connection):
            self._cursor = _Cursor(raw, row_factory=tuple_row)
        else:
            self._cursor = _AsyncCursor(raw, row_factory=tuple_row)

    @property
    def announced(self) -> int:
        """The number of the session as it was told when this connection was made; a pooler tells one of its own."""
        return self._raw.info.backend_pid

    async def fetch(self, statement: Statement, parameters: Parameters = ()) -> list[Row]:
        """See `Connection.fetch`."""
        with self._errors():
            await self._run(statement, parameters)
            rows: list[Row] = await _answer(self._cursor.fetchall())
            return rows

    async def execute(self, statement: Statement, parameters: Parameters = ()) -> int:
        """See `Connection.execute`."""
        with self._errors():
            await self._run(statement, parameters)
            return int(self._cursor.rowcount)

    async def many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        """See `Connection.many`."""
        with self._errors():
            await _answer(self._cursor.executemany(statement.format, rows))
            return int(self._cursor.rowcount)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """A transaction, or a savepoint inside the caller's."""
        with self._errors():
            if isinstance(self._raw, psycopg.Connection):
                with self._raw.transaction():
                    yield
            else:
                async with self._raw.transaction():
                    yield

    async def _run(self, statement: Statement, parameters: Parameters) -> None:
        await _answer(self._cursor.execute(statement.format, parameters, prepare=self._prepare, binary=True))

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except (psycopg.Error, UnicodeEncodeError, OverflowError) as error:
            raise translate(error, self._where) from error


class CallersConnection(PostgresConnection):
    """A connection that somebody else opened, with whatever transaction is open on it. Nothing of it is changed."""

    __slots__ = ("_pipeline",)

    def __init__(self, raw: Raw, where: str) -> None:
        super().__init__(raw, where, prepare=False)
        self._pipeline: Any = None

    @asynccontextmanager
    async def in_use(self) -> AsyncGenerator[None]:
        """Around everything done with it. Raises where nothing can be. A pipeline is brought up to date first."""
        raw = self._raw
        if raw.closed:
            raise StoreUnavailableError("tx: this connection is closed. Give one that is open.")
        with self._errors():
            if raw.info.pipeline_status == PipelineStatus.OFF:
                self._refuse_unusable()
                yield
            elif isinstance(raw, psycopg.Connection):
                with raw.pipeline() as self._pipeline:
                    self._pipeline.sync()
                    self._refuse_unusable()
                    yield
            else:
                async with raw.pipeline() as self._pipeline:
                    await self._pipeline.sync()
                    self._refuse_unusable()
                    yield

    async def execute(self, statement: Statement, parameters: Parameters = ()) -> int:
        """See `Connection.execute`."""
        with self._errors():
            await self._run(statement, parameters)
            if self._pipeline is not None:
                await _answer(self._pipeline.sync())
            return int(self._cursor.rowcount)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """A savepoint in the caller's transaction; on a connection in autocommit without one, a transaction."""
        if not self._raw.autocommit and self._raw.info.transaction_status == TransactionStatus.IDLE:
            # Theirs begins with the first statement. The driver would take the block for the whole of it, and commit.
            await self.fetch(_BEGIN)
        async with super().transaction():
            yield

    def address(self) -> str:
        """Where the connection leads, for an error message."""
        info = self._raw.info
        return f"{info.host or info.hostaddr}:{info.port}"

    def _refuse_unusable(self) -> None:
        if self._raw.info.transaction_status == TransactionStatus.INERROR:
            raise StoreError(
                "tx: an earlier statement failed in the transaction of this connection, which now takes nothing but a "
                "rollback. Nothing was enqueued."
            )
        if self._raw.info.parameter_status("client_encoding") == "SQL_ASCII":
            raise ConfigurationError(
                "tx: this connection has the client_encoding SQL_ASCII, in which texts cannot be told from bytes. "
                "Open it with client_encoding=UTF8."
            )


def raw_of(tx: object, *, awaits: bool) -> Raw:
    """The connection that a caller gave as it is or by a cursor of it. `awaits`: to be used by a coroutine."""
    raw = tx.connection if isinstance(tx, psycopg.Cursor | psycopg.AsyncCursor) else tx
    if isinstance(raw, psycopg.AsyncConnection):
        if awaits:
            return raw
        raise ConfigurationError(
            "tx: a blocking call cannot use an AsyncConnection. Await the call that has an a in front: aenqueue, "
            "aenqueue_many or asend."
        )
    if isinstance(raw, psycopg.Connection):
        if not awaits:
            return raw
        raise ConfigurationError(
            "tx: an awaited call cannot use a synchronous connection, which would hold up the event loop. Give an "
            "AsyncConnection, or call enqueue, enqueue_many or send in the thread that has this one."
        )
    kind = f"{type(tx).__module__}.{type(tx).__qualname__}"
    raise ConfigurationError(
        f"tx: a {kind} is no connection of psycopg 3. Give a psycopg Connection or AsyncConnection, or a cursor of one."
    )


async def _answer(value: Any) -> Any:
    return await value if isawaitable(value) else value
