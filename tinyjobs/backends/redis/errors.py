"""Redis's errors by the kind of trouble they stand for. Beside the connections the only importer of the driver."""

import re
import traceback
from typing import Any

from redis import exceptions as driver

from tinyjobs.backends.redis.replies import ReplyError
from tinyjobs.core.errors import (
    ConfigurationError,
    DataRefusedError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    TinyJobsError,
)

# What the driver leaves out of the text where it has a class for it. The most special first.
_CODES: tuple[tuple[str, str], ...] = (
    ("NoScriptError", "NOSCRIPT"),
    ("OutOfMemoryError", "OOM"),
    ("ReadOnlyError", "READONLY"),
    ("NoPermissionError", "NOPERM"),
    ("BusyLoadingError", "LOADING"),
    ("AuthenticationWrongNumberOfArgsError", "NOAUTH"),
    ("AuthenticationError", "NOAUTH"),
    ("AuthorizationError", "NOAUTH"),
    ("MasterDownError", "MASTERDOWN"),
    ("ClusterDownError", "CLUSTERDOWN"),
    ("ClusterCrossSlotError", "CROSSSLOT"),
    ("MovedError", "MOVED"),
    ("AskError", "ASK"),
    ("TryAgainError", "TRYAGAIN"),
)
_LOGIN = "Check the user name and password in the store's URL, or requirepass and the ACL on the server."
_ONE_SERVER = (
    "The server is a node of a cluster. All keys of a store are in one slot: give the store a single server, or a "
    "primary with replicas."
)
_BUSY = {
    "BUSY": "A script of somebody's has been running for too long; SCRIPT KILL ends one that has written nothing.",
    "UNKILLABLE": "A script of somebody's has been running for too long.",
    "TRYAGAIN": "The server is moving keys.",
}
_OUT_OF_REACH = {
    "LOADING": "It is reading its data from disk, and will answer when it has.",
    "MISCONF": "It cannot save to disk and so takes no writes: see its log; often the disk is full or its directory "
    "cannot be written.",
    "OOM": "Its maxmemory is reached: raise it, or let jobs be purged sooner.",
    "READONLY": "It takes no writes, as a replica: after a failover the next call looks for the primary again; "
    "otherwise give the URL of the primary.",
    "MASTERDOWN": "It is a replica that has lost its primary.",
    "NOREPLICAS": "It has too few replicas to take writes (min-replicas-to-write).",
    "CLUSTERDOWN": _ONE_SERVER,
    "NOAUTH": _LOGIN,
    "WRONGPASS": _LOGIN,
    "DENIED": "Its protected mode admits nobody from elsewhere: set a password or bind an address.",
}
_MISCONFIGURED = {"MOVED": _ONE_SERVER, "ASK": _ONE_SERVER, "CROSSSLOT": _ONE_SERVER}
_OTHER = {
    "NOPERM": "Grant the user of the store's URL the commands and keys that it needs.",
    "WRONGTYPE": "A key of the store's holds something else, so another program uses the same prefix: give each its "
    "own prefix= or database.",
}
_TOO_LARGE = ("string exceeds maximum allowed size", "invalid bulk length", "invalid multibulk length")
_UNREADABLE = "Protocol error"
_TOO_MANY = "max number of clients"
# An error inside a script, as older servers tell it: behind the places in the script.
_IN_SCRIPT = re.compile(r"[:\s]-([A-Z]{3,})\s")
# Newer ones tell so of a command, a key or a channel that a script may not use.
_FORBIDDEN_IN_SCRIPT = "The user executing the script can't"
_LEADING = re.compile(r"([A-Z]{3,})\s")
# Of asyncio on Python 3.12, when it writes to a connection that was reset.
_BROKEN_WRITE = "'NoneType' object is not callable"


def translate(error: BaseException, where: str) -> BaseException:
    """The `StoreError` for a driver's error; anything else comes back as it is. `code` on it is the server's own.

    What can never work with this server is a `ConfigurationError`.
    """
    if isinstance(error, UnicodeEncodeError | OverflowError | driver.DataError):
        return _told(DataRefusedError(f"Redis cannot store these values: {message_of(error)}"), error, "")
    if is_broken_write(error):
        return _told(StoreUnavailableError(f"{where}: the connection was reset"), error, "")
    if not isinstance(error, driver.RedisError | OSError):
        return error
    code, text = code_of(error), message_of(error)
    told: TinyJobsError
    if code in _OUT_OF_REACH:
        told = StoreUnavailableError(f"{where}: {text}. {_OUT_OF_REACH[code]}")
    elif code in _BUSY:
        told = StoreBusyError(f"{where}: {text}. {_BUSY[code]}")
    elif _TOO_MANY in text:
        told = StoreBusyError(f"{where}: {text}. Raise maxclients on the server, or lower max_connections here.")
    elif code in _MISCONFIGURED:
        told = ConfigurationError(f"{where}: {text}. {_MISCONFIGURED[code]}")
    elif code in _OTHER:
        told = StoreError(f"{where}: {text}. {_OTHER[code]}")
    elif code == "REFUSED":
        # A script of ours says so, before it has written anything.
        told = DataRefusedError(f"{where}: {text.removeprefix('REFUSED ')}")
    elif any(part in text for part in _TOO_LARGE):
        told = DataRefusedError(f"{where}: {text}. The server takes no value that large (proto-max-bulk-len).")
    elif isinstance(error, driver.ConnectionError | driver.TimeoutError | driver.InvalidResponse | OSError):
        told = StoreUnavailableError(f"{where}: {text}")
    else:
        told = StoreError(f"{where}: {text}")
    return _told(told, error, code)


def code_of(error: BaseException) -> str:
    """The word that stands first in the server's answer, such as OOM, also where a script met it; "" for none."""
    for name, code in _CODES:
        kind: Any = getattr(driver, name, ())
        if isinstance(error, kind):
            return code
    if not isinstance(error, driver.RedisError):
        return ""
    text = str(error)
    if _FORBIDDEN_IN_SCRIPT in text:
        return "NOPERM"
    found = _LEADING.match(text)
    if found is None or found[1] == "ERR":
        found = _IN_SCRIPT.search(text) or found
    return "" if found is None else found[1]


def is_no_script(error: BaseException) -> bool:
    """Whether the server does not know the script by its hash, so that nothing of it has run."""
    return isinstance(error, ReplyError) and str(error).startswith("NOSCRIPT")


def is_answer(error: BaseException) -> bool:
    """Whether the error is what the server answered, whole, so that the connection can go on.

    Behind what it cannot read it ends the connection, be it a moment later.
    """
    return isinstance(error, ReplyError) and _UNREADABLE not in str(error)


def is_of_replica(error: BaseException) -> bool:
    """Whether the server is not, or no longer, the one that takes writes."""
    return code_of(error) in ("READONLY", "MASTERDOWN")


def is_broken_write(error: BaseException) -> bool:
    """Whether asyncio itself fell over a connection that had been reset."""
    if not isinstance(error, TypeError) or str(error) != _BROKEN_WRITE:
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__", "")).startswith("asyncio.")


def message_of(error: BaseException) -> str:
    """The driver's message in one line, without a full stop, with the system's reason where that was left out."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    behind = error.__cause__ or error.__context__
    reason = behind.strerror if isinstance(behind, OSError) else None
    return f"{text}: {reason}" if reason and reason not in text else text


def _told[E: TinyJobsError](told: E, error: BaseException, code: str) -> E:
    told.__cause__ = error
    told.code = code  # type: ignore[attr-defined]
    return told
