"""What the codes of Postgres's errors stand for, whichever driver brings them. Knows no driver."""

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


def told_by_state(state: str, text: str, where: str) -> StoreError | None:
    """The error for an SQLSTATE and the server's text; None where the state says nothing, or there is none."""
    if state in _RETRIED:
        return StoreBusyError(f"{where}: the statement {_RETRIED[state]}: {text}")
    if state in _BUSY:
        return StoreBusyError(f"{where}: {text}. {_BUSY[state]}")
    if state in _READ_ONLY:
        return StoreUnavailableError(f"{where}: {text}. {_READ_ONLY[state]}")
    if state in _MISSING:
        return SchemaMissingError(
            f"{where}: {text}. The tables of tinyjobs are missing or older than this release: run `manage.py migrate` "
            f"in a Django project, or setup() otherwise."
        )
    if state in _UNARBITRATED:
        return SchemaMissingError(
            f"{where}: {text}. A unique index or primary key of tinyjobs is missing or not valid. `manage.py migrate` "
            f"in a Django project, or setup() in a process that starts, builds it again."
        )
    if state[:2] in _REFUSED:
        return DataRefusedError(f"{where}: {text}")
    if state[:2] in _OUT_OF_REACH:
        return StoreUnavailableError(f"{where}: {text}")
    return None


def message_of(error: BaseException) -> str:
    """The driver's message in one line, without the statement it may quote."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("LINE ", "^", "CONTEXT:", "DETAIL:", "HINT:"))]
    return "; ".join(kept[:2]) or type(error).__name__
