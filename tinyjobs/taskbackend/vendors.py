"""Which kinds of Django database can hold jobs: the statements for each, how its driver's errors are told apart, and
how a worker opens it with connections of its own.

A database whose vendor is not listed here cannot be a store; `migrate` leaves it alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tinyjobs.backends.base import Backend
from tinyjobs.backends.sql import layout
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.plain import PlainDialect
from tinyjobs.backends.sql.statements import DEFAULT_PREFIX, Statements
from tinyjobs.backends.sqlite import connection as sqlite_connection
from tinyjobs.backends.sqlite import errors as sqlite_errors
from tinyjobs.backends.sqlite import options as sqlite_options
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import ConfigurationError

#: The prefix of the tables in a Django database: the one that the models describe.
PREFIX = DEFAULT_PREFIX


@dataclass(frozen=True, slots=True)
class Vendor:
    """One kind of database. `options` are the store's own, for the connections that a worker opens beside Django's."""

    name: str
    translate: Callable[[BaseException, str], BaseException]
    #: Made at first use, since most projects have one kind of database.
    make_dialect: Callable[[], Dialect]
    #: Whether the database's clock decides, not this machine's.
    by_server: bool
    options: frozenset[str]
    #: Raises `ConfigurationError` for values that those options cannot have.
    check: Callable[[Mapping[str, Any]], object]
    #: From an entry of DATABASES, the clock, and the store's own options.
    open: Callable[[Mapping[str, Any], Clock, Mapping[str, Any]], Backend]

    @property
    def dialect(self) -> Dialect:
        """The store's own way of saying things, for the tables in a Django database."""
        return _dialect(self.make_dialect)

    @property
    def statements(self) -> Statements:
        """Its statements."""
        return self.dialect.statements


class MigratedSQLite(SQLiteBackend):
    """The SQLite file of a Django project: its tables come from `migrate`, so `setup` only checks them."""

    async def setup(self) -> None:
        """Raise unless this release can work on the tables: `SchemaMissingError` before the first `migrate`."""
        await self._runner.run(lambda connection: layout.check(connection, self.statements, self.path), write=False)


def _open_sqlite(entry: Mapping[str, Any], clock: Clock, options: Mapping[str, Any]) -> Backend:
    path = str(entry["NAME"])
    if path == ":memory:" or "mode=memory" in path:
        raise ConfigurationError(
            "The database is SQLite in memory, which only this process's own connections see: no worker can serve it. "
            "Use a file, or run the jobs with tinyjobs.testing.drain()."
        )
    given = dict(options)
    # What the project waits for a lock, unless the alias says otherwise.
    given.setdefault("busy_timeout", entry.get("OPTIONS", {}).get("timeout", 5.0))
    return MigratedSQLite(path, clock=clock, prefix=PREFIX, **given)


def _check_sqlite(given: Mapping[str, Any]) -> object:
    usual = {"prefix": PREFIX, "busy_timeout": 5.0, "synchronous": "NORMAL", "returning": None}
    return sqlite_options.SqliteOptions.parse(**{**usual, **given}, library=sqlite_connection.library_version())


def _sqlite_dialect() -> Dialect:
    returning = sqlite_connection.library_version() >= sqlite_options.RETURNING_VERSION
    return PlainDialect(Statements("tinyjobs.backends.sqlite", PREFIX), returning=returning)


_VENDORS = {
    "sqlite": Vendor(
        name="sqlite",
        translate=sqlite_errors.translate,
        make_dialect=_sqlite_dialect,
        by_server=False,
        options=frozenset({"busy_timeout", "synchronous", "returning"}),
        check=_check_sqlite,
        open=_open_sqlite,
    ),
}


def find_vendor(name: str) -> Vendor | None:
    """The store for a value of `connection.vendor`, or None when no store supports it."""
    return _VENDORS.get(name)


def supported() -> str:
    """The vendors there are, for a message."""
    return ", ".join(sorted(_VENDORS))


@cache
def _dialect(make: Callable[[], Dialect]) -> Dialect:
    return make()
