"""A psycopg connection behind the interface that the SQL verbs use: one of a pool, or a caller's own.

The same class serves synchronous and asynchronous connections: over a synchronous one nothing suspends. With
`errors.py`, `pool.py` and `listener.py` the only place that imports the driver.
"""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from inspect import isawaitable
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from tinyjobs.backends.postgres.errors import translate
from tinyjobs.backends.sql.connection import Parameters, Row
from tinyjobs.backends.sql.statements import Statement

type Raw = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


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
            self._cursor = psycopg.Cursor(raw, row_factory=tuple_row)
        else:
            self._cursor = psycopg.AsyncCursor(raw, row_factory=tuple_row)

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


async def _answer(value: Any) -> Any:
    return await value if isawaitable(value) else value
