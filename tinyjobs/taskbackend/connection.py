"""Django's connection behind the interface that the SQL verbs use, so that a verb joins the caller's transaction.

Statements go through Django's cursors: query logging, `execute_wrapper`, `assertNumQueries` and reconnection see them.
Nothing here suspends, and nothing is opened before the first statement. Errors stay Django's own, as callers of the
ORM know them, except where an engine loop has to tell kinds of trouble apart and asks for the store's.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext

from django.db import DatabaseError, InterfaceError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tinyjobs.backends.sql.connection import Parameters, Row, Verb
from tinyjobs.backends.sql.statements import Statement

# By SQLSTATE: could not be serialized, met a deadlock.
_UNDONE = ("40001", "40P01")
# How often a verb is tried that the database undid, before the last time.
_TRIES = 3

type Translate = Callable[[BaseException, str], BaseException]


class DjangoConnection:
    """One Django connection. Used by the thread that owns it."""

    __slots__ = ("_translate", "_wrapper")

    def __init__(self, wrapper: BaseDatabaseWrapper, translate: Translate | None = None) -> None:
        self._wrapper = wrapper
        self._translate = translate

    async def fetch(self, statement: Statement, parameters: Parameters = ()) -> list[Row]:
        """See `Connection.fetch`."""
        with self._errors(), self._wrapper.cursor() as cursor:
            cursor.execute(statement.format, parameters)
            rows: list[Row] = cursor.fetchall()
            return rows

    async def execute(self, statement: Statement, parameters: Parameters = ()) -> int:
        """See `Connection.execute`."""
        if self._translate is None:
            with self._wrapper.cursor() as cursor:
                cursor.execute(statement.format, parameters)
                return int(cursor.rowcount)
        with self._errors(), self._wrapper.cursor() as cursor:
            cursor.execute(statement.format, parameters)
            return int(cursor.rowcount)

    async def many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        """See `Connection.many`."""
        with self._errors(), self._wrapper.cursor() as cursor:
            cursor.executemany(statement.format, rows)
            return int(cursor.rowcount)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """A transaction, or a savepoint inside the caller's."""
        with self._errors(), transaction.atomic(using=self._wrapper.alias):
            yield

    def _errors(self) -> AbstractContextManager[None]:
        return nullcontext() if self._translate is None else self._translated(self._translate)

    @contextmanager
    def _translated(self, translate: Translate) -> Generator[None]:
        try:
            yield
        except (DatabaseError, InterfaceError) as error:
            told = translate(error.__cause__ or error, f"DATABASES[{self._wrapper.alias!r}]")
            if told is error or told is error.__cause__:
                raise
            raise told from error
        except (OverflowError, UnicodeEncodeError) as error:
            # What the driver refuses before it sends anything is not wrapped by Django.
            raise translate(error, f"DATABASES[{self._wrapper.alias!r}]") from error


class DjangoRunner:
    """Runs verbs here and now on this thread's connection of one alias, inside whatever transaction it has open.

    Where none is open, a verb that the database undid for the sake of somebody else's transaction runs again.
    """

    def __init__(self, alias: str, translate: Translate | None = None) -> None:
        self._alias = alias
        self._translate = translate

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb."""
        wrapper = connections[self._alias]
        for _ in range(_TRIES):
            try:
                return await verb(DjangoConnection(wrapper, self._translate))
            except Exception as error:
                if wrapper.in_atomic_block or not wrapper.autocommit or not _was_undone(error):
                    raise
        return await verb(DjangoConnection(wrapper, self._translate))

    async def close(self) -> None:
        """Nothing to let go of: the connections are Django's."""


def _was_undone(error: BaseException | None) -> bool:
    while error is not None:
        if getattr(error, "sqlstate", None) in _UNDONE:
            return True
        error = error.__cause__
    return False
