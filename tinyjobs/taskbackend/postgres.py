"""A Django database that is Postgres, as a store: the statements, the options, and who can serve it.

Nothing here needs psycopg 3: on psycopg2, which has no asynchronous side, a project can send jobs, look at them and
drain them. A worker needs psycopg 3; what it opens is in `postgresstore`.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from tinyjobs.backends.base import Backend
from tinyjobs.backends.postgres import indexes
from tinyjobs.backends.postgres.audit import audit
from tinyjobs.backends.postgres.dialect import PostgresDialect
from tinyjobs.backends.postgres.notifying import Announcer
from tinyjobs.backends.postgres.options import PostgresOptions
from tinyjobs.backends.postgres.states import message_of, told_by_state
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import ConfigurationError, DataRefusedError, StoreError, StoreUnavailableError
from tinyjobs.taskbackend.vendors import PREFIX, Vendor

_REMEDY = "Install psycopg 3 with its pool: pip install 'psycopg[binary,pool]'."


def _missing_for_workers(connection: BaseDatabaseWrapper) -> tuple[str, str] | None:
    driver: Any = getattr(connection, "Database", None)
    if getattr(driver, "__name__", "") == "psycopg2":
        return "its driver is psycopg2, with which a project can send jobs and no more", _REMEDY
    if find_spec("psycopg_pool") is None:
        return "the package psycopg_pool is not installed", _REMEDY
    return None


def _open(alias: str, clock: Clock, options: Mapping[str, Any]) -> Backend:
    missing = _missing_for_workers(connections[alias])
    if missing is not None:
        raise ConfigurationError(f"DATABASES[{alias!r}] cannot be served by a worker: {missing[0]}. {missing[1]}")
    from tinyjobs.taskbackend.postgresstore import open_migrated

    return open_migrated(alias, clock, PostgresOptions.parse({"prefix": PREFIX, **options}))


def _check(given: Mapping[str, Any]) -> object:
    # Whether the two numbers of connections go together is the other check's.
    apart = {} if "max_connections" in given else {"max_connections": 1_000}
    return PostgresOptions.parse({"min_connections": 1, **apart, **given})


def _translate(error: BaseException, where: str) -> BaseException:
    if type(error).__module__.startswith("psycopg2"):
        return _translate_psycopg2(error, where)
    if find_spec("psycopg") is None:
        return error
    from tinyjobs.backends.postgres import errors

    return errors.translate(error, where)


def _translate_psycopg2(error: BaseException, where: str) -> BaseException:
    """The same for the older driver, known by the names of its exceptions: it need not be there."""
    kinds = {cls.__name__ for cls in type(error).__mro__}
    state, text = getattr(error, "pgcode", None) or "", message_of(error)
    told = told_by_state(state, text, where)
    if told is None and "DataError" in kinds:
        told = DataRefusedError(f"{where}: {text}")
    if told is None and ((not state and "OperationalError" in kinds) or "closed" in text):
        told = StoreUnavailableError(f"{where}: {text}")
    return told or StoreError(f"{where}: {text}")


def _make_dialect() -> Dialect:
    return PostgresDialect(Statements("tinyjobs.backends.postgres", PREFIX))


def _announcer(given: Mapping[str, Any]) -> Announcer | None:
    return Announcer(VENDOR.statements["notify"]) if PostgresOptions.parse(given).notify else None


VENDOR = Vendor(
    name="postgresql",
    translate=_translate,
    make_dialect=_make_dialect,
    by_server=True,
    options=frozenset({"min_connections", "max_connections", "pool_timeout", "statement_timeout", "notify"}),
    check=_check,
    check_all=PostgresOptions.parse,
    open=_open,
    audit=lambda connection, statements, name: audit(connection, statements),
    missing_for_workers=_missing_for_workers,
    announcer=_announcer,
    indexes=indexes,
)
