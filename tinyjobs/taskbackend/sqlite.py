"""A Django database that is SQLite, as a store: `migrate` lays it out, a worker opens it with its own connections."""

from collections.abc import Mapping
from typing import Any

from django.db import connections

from tinyjobs.backends.base import Backend
from tinyjobs.backends.sql import layout
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.plain import PlainDialect
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.backends.sqlite import connection as sqlite_connection
from tinyjobs.backends.sqlite import errors as sqlite_errors
from tinyjobs.backends.sqlite import options as sqlite_options
from tinyjobs.backends.sqlite.audit import audit
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.backends.sqlite.looking import look_for_file
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import ConfigurationError, SchemaMissingError
from tinyjobs.taskbackend.vendors import PREFIX, Vendor


class MigratedSQLite(SQLiteBackend):
    """The SQLite file of a Django project: its tables come from `migrate`, so `setup` only checks them."""

    async def setup(self) -> None:
        """Raise unless this release can work on the tables: `SchemaMissingError` before the first `migrate`."""
        await self._runner.run(lambda connection: layout.check(connection, self.statements, self.path), write=False)


def _open(alias: str, clock: Clock, options: Mapping[str, Any]) -> Backend:
    entry = connections[alias].settings_dict
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


def _look_for_file(name: object, where: str) -> None:
    try:
        look_for_file(str(name))
    except SchemaMissingError as error:
        raise SchemaMissingError(f"{where}: {error} `manage.py migrate` makes it.") from error


def _check(given: Mapping[str, Any]) -> object:
    usual = {"prefix": PREFIX, "busy_timeout": 5.0, "synchronous": "NORMAL", "returning": None}
    return sqlite_options.SqliteOptions.parse(**{**usual, **given}, library=sqlite_connection.library_version())


def _make_dialect() -> Dialect:
    returning = sqlite_connection.library_version() >= sqlite_options.RETURNING_VERSION
    return PlainDialect(Statements("tinyjobs.backends.sqlite", PREFIX), returning=returning)


VENDOR = Vendor(
    name="sqlite",
    translate=sqlite_errors.translate,
    make_dialect=_make_dialect,
    by_server=False,
    options=frozenset({"busy_timeout", "synchronous", "returning"}),
    check=_check,
    check_all=_check,
    open=_open,
    audit=audit,
    look_for_file=_look_for_file,
)
