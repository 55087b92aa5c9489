"""Postgres's errors by the kind of trouble they stand for. Beside the connections the only importer of the driver."""

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from tinyjobs.core.errors import DataRefusedError, SchemaMissingError, StoreBusyError, StoreError, StoreUnavailableError

# By SQLSTATE, whole or by its class.
_RETRIED = {"40001": "could not be serialized", "40P01": "met a deadlock"}
_BUSY = {
    "55P03": "A lock was held for too long.",
    "57014": "The statement was cut off, by statement_timeout or by hand.",
    "25P03": "The transaction stood idle for too long.",
    "53300": "The server has no connection left.",
}
_MISSING = {"42P01", "42703", "3F000"}
# What only an ON CONFLICT without its unique index meets.
_UNARBITRATED = {"42P10"}
_READ_ONLY = {"25006": "The server takes no writes: it is a standby or read-only."}
_OUT_OF_REACH = {"08", "57", "58", "53", "28", "3D", "XX"}
_REFUSED = {"22", "23", "54"}


def translate(error: BaseException, where: str) -> BaseException:
    """The `StoreError` for a driver's error; anything else comes back as it is. The SQLSTATE is kept on it."""
    if isinstance(error, UnicodeEncodeError | OverflowError | psycopg.DataError):
        return _told(DataRefusedError(f"Postgres cannot store these values: {message_of(error)}"), error)
    if isinstance(error, PoolTimeout | TooManyRequests):
        return _told(StoreBusyError(f"{where}: every connection of the pool is in use."), error)
    if isinstance(error, PoolClosed):
        return _told(StoreUnavailableError(f"{where}: the store was closed."), error)
    if not isinstance(error, psycopg.Error):
        return error
    state, text = error.sqlstate or "", message_of(error)
    if state in _RETRIED:
        told: StoreError = StoreBusyError(f"{where}: the statement {_RETRIED[state]}: {text}")
    elif state in _BUSY:
        told = StoreBusyError(f"{where}: {text}. {_BUSY[state]}")
    elif state in _READ_ONLY:
        told = StoreUnavailableError(f"{where}: {text}. {_READ_ONLY[state]}")
    elif state in _MISSING:
        told = SchemaMissingError(
            f"{where}: {text}. The tables of tinyjobs are missing or older than this release: run `manage.py migrate` "
            f"in a Django project, or setup() otherwise."
        )
    elif state in _UNARBITRATED:
        told = SchemaMissingError(
            f"{where}: {text}. A unique index or primary key of tinyjobs is missing or not valid. `manage.py migrate` "
            f"in a Django project, or setup() in a process that starts, builds it again."
        )
    elif state[:2] in _REFUSED:
        told = DataRefusedError(f"{where}: {text}")
    elif state[:2] in _OUT_OF_REACH or (not state and isinstance(error, psycopg.OperationalError)):
        told = StoreUnavailableError(f"{where}: {text}")
    elif isinstance(error, psycopg.InterfaceError) or (not state and isinstance(error, psycopg.ProgrammingError)):
        told = StoreUnavailableError(f"{where}: {text}") if "closed" in text else StoreError(f"{where}: {text}")
    else:
        told = StoreError(f"{where}: {text}")
    return _told(told, error)


def is_worth_retrying(error: BaseException) -> bool:
    """Whether the server undid the whole transaction for the sake of another one, so that it may simply run again."""
    return isinstance(error.__cause__, pg.SerializationFailure | pg.DeadlockDetected)


def is_outdated(error: BaseException) -> bool:
    """Whether the connection had prepared the statement for tables that have changed since: another one has not."""
    return isinstance(error.__cause__, pg.FeatureNotSupported | pg.InvalidSqlStatementName)


def is_lost(error: BaseException) -> bool:
    """Whether the connection broke, and with it the answer. Not where none was to be had."""
    return (
        isinstance(error, StoreUnavailableError)
        and isinstance(error.__cause__, psycopg.OperationalError | psycopg.InterfaceError)
        and not isinstance(error.__cause__, pg.ReadOnlySqlTransaction | PoolTimeout)
    )


def message_of(error: BaseException) -> str:
    """The driver's message in one line, without the statement it may quote."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("LINE ", "^", "CONTEXT:", "DETAIL:", "HINT:"))]
    return "; ".join(kept[:2]) or type(error).__name__


def _told(told: StoreError, error: BaseException) -> StoreError:
    told.__cause__ = error
    told.sqlstate = getattr(error, "sqlstate", None)  # type: ignore[attr-defined]
    return told
