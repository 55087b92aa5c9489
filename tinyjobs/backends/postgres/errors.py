"""Postgres's errors by the kind of trouble they stand for. Beside the connections the only importer of the driver."""

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from tinyjobs.backends.postgres.states import message_of, told_by_state
from tinyjobs.core.errors import DataRefusedError, StoreBusyError, StoreError, StoreUnavailableError


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
    told = told_by_state(state, text, where)
    if told is not None:
        return _told(told, error)
    if not state and isinstance(error, psycopg.OperationalError):
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


def _told(told: StoreError, error: BaseException) -> StoreError:
    told.__cause__ = error
    told.sqlstate = getattr(error, "sqlstate", None)  # type: ignore[attr-defined]
    return told
