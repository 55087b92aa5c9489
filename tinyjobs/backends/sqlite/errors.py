"""SQLite's errors by the kind of trouble they stand for. Beside `connection.py` the only importer of the driver."""

import sqlite3

from tinyjobs.core.errors import (
    ConfigurationError,
    DataRefusedError,
    SchemaMissingError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)

_BUSY = {"SQLITE_BUSY", "SQLITE_LOCKED"}
_OUT_OF_REACH = {
    "SQLITE_FULL": "The disk is full.",
    "SQLITE_IOERR": "The disk or file system failed.",
    "SQLITE_CANTOPEN": "The file cannot be opened; check the folder and its permissions.",
    "SQLITE_READONLY": "The file or its folder is read-only.",
    "SQLITE_NOMEM": "There is not enough memory.",
    "SQLITE_PROTOCOL": "The locks of the file are contended.",
    "SQLITE_NOTADB": "The file is not a SQLite database.",
    "SQLITE_CORRUPT": "The file is damaged.",
    "SQLITE_PERM": "The file's permissions do not allow this.",
}
_REFUSED = {"SQLITE_TOOBIG", "SQLITE_MISMATCH", "SQLITE_RANGE", "SQLITE_CONSTRAINT"}


def translate(error: BaseException, path: str) -> BaseException:
    """The `StoreError` for a driver's error; anything else comes back as it is. Code and name are kept on it."""
    if isinstance(error, OverflowError | UnicodeEncodeError | sqlite3.DataError):
        return _told(DataRefusedError(f"SQLite cannot store these values: {error}"), error)
    if not isinstance(error, sqlite3.Error):
        return error
    name = _name(error)
    text = str(error)
    if name in _BUSY:
        told: StoreError = StoreBusyError(f"{path}: {text}. Another connection held the lock for too long.")
    elif text.startswith(("no such table", "no such column")) or "has no column named" in text:
        told = SchemaMissingError(
            f"{path}: {text}. The tables of tinyjobs are missing or older than this release: run "
            f"`manage.py migrate` in a Django project, or setup() otherwise."
        )
    elif name in _OUT_OF_REACH:
        told = StoreUnavailableError(f"{path}: {text}. {_OUT_OF_REACH[name]}")
    elif name in _REFUSED:
        told = DataRefusedError(f"{path}: {text}")
    elif isinstance(error, sqlite3.ProgrammingError) and "closed" in text:
        told = StoreUnavailableError(f"{path}: the connection was closed.")
    else:
        told = StoreError(f"{path}: {text}")
    return _told(told, error)


def translate_in_transaction(error: BaseException, path: str) -> BaseException:
    """The same for an error of a caller's own connection, told to the one who holds it."""
    text, name = str(error), getattr(error, "sqlite_errorname", None) or ""
    if isinstance(error, sqlite3.ProgrammingError) and "closed database" in text:
        return _told(StoreUnavailableError("tx: this connection is closed. Give one that is open."), error)
    if isinstance(error, sqlite3.ProgrammingError) and "thread" in text:
        told = ConfigurationError(
            f"tx: this connection belongs to another thread. Enqueue in the thread that opened it, or open it with "
            f"check_same_thread=False and let one thread use it at a time. SQLite says: {text}"
        )
        told.__cause__ = error
        return told
    if name == "SQLITE_BUSY_SNAPSHOT":
        return _told(
            StoreBusyError(
                f"{path}: {text}. This transaction has read, and another connection has written since, so it cannot "
                f"write any more. Roll it back and begin it with BEGIN IMMEDIATE, or enqueue before it reads."
            ),
            error,
        )
    if name.startswith("SQLITE_BUSY"):
        return _told(
            StoreBusyError(
                f"{path}: {text}. Another connection held the write lock for longer than the timeout of this one. A "
                f"transaction that has read does not wait at all: begin such a one with BEGIN IMMEDIATE."
            ),
            error,
        )
    if name.startswith("SQLITE_LOCKED"):
        return _told(
            StoreBusyError(
                f"{path}: {text}. A cursor of this connection is still reading. Read its rows to the end first, as "
                f"with fetchall()."
            ),
            error,
        )
    return translate(error, path)


def not_seen(error: SchemaMissingError, path: str) -> SchemaMissingError:
    """What to say where the tables are there by now and a transaction still does not see them."""
    told = SchemaMissingError(
        f"{path}: {error.__cause__ or error}. This transaction reads the file as it was before another connection "
        f"made the tables of tinyjobs. Roll it back and begin it again."
    )
    for attribute in ("sqlite_errorcode", "sqlite_errorname"):
        if hasattr(error, attribute):
            setattr(told, attribute, getattr(error, attribute))
    return told


def is_busy(error: BaseException) -> bool:
    """Whether the driver's error says that somebody else holds the lock."""
    return isinstance(error, sqlite3.OperationalError) and _name(error) in _BUSY


def is_undecodable(error: BaseException) -> bool:
    """Whether a `StoreError` came of a text in the file that is not UTF-8, which the driver does not read."""
    return isinstance(error.__cause__, sqlite3.OperationalError) and str(error.__cause__).startswith("Could not decode")


def _name(error: sqlite3.Error) -> str:
    # Extended names such as SQLITE_BUSY_SNAPSHOT begin with the primary one.
    full = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(full.split("_")[:2])


def _told(told: StoreError, error: BaseException) -> StoreError:
    told.__cause__ = error
    for attribute in ("sqlite_errorcode", "sqlite_errorname"):
        if hasattr(error, attribute):
            setattr(told, attribute, getattr(error, attribute))
    return told
