"""The SQLite store's URL and options, read once; every error names where the value came from.

Knows nothing of connections. Values of a URL's query are texts and are read as what they spell.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlsplit

from tinyjobs.backends.sql.statements import check_prefix
from tinyjobs.core.errors import ConfigurationError, refuse_unknown

#: The first SQLite that can answer rows from an UPDATE, and the first one supported at all (upserts from a SELECT).
RETURNING_VERSION = (3, 35, 0)
OLDEST_VERSION = (3, 33, 0)

OPTIONS = frozenset({"prefix", "busy_timeout", "synchronous", "returning"})
_SYNCHRONOUS = ("NORMAL", "FULL", "EXTRA")
_YES, _NO = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteOptions:
    """The options as they are meant. `busy_timeout` is in seconds; `returning` is never None."""

    prefix: str
    busy_timeout: float
    synchronous: str
    returning: bool

    @classmethod
    def parse(
        cls, *, prefix: object, busy_timeout: object, synchronous: object, returning: object, library: tuple[int, ...]
    ) -> "SqliteOptions":
        """Check each option against what it may be, and against the version of the SQLite library."""
        return cls(
            prefix=_prefix(prefix),
            busy_timeout=_seconds(busy_timeout, "busy_timeout"),
            synchronous=_one_of(synchronous, _SYNCHRONOUS, "synchronous"),
            returning=_returning(returning, library),
        )


def check_library(library: tuple[int, ...]) -> None:
    """Raise for a SQLite library that is too old."""
    if library < OLDEST_VERSION:
        raise ConfigurationError(
            f"SQLite {_dotted(library)} is too old: tinyjobs needs {_dotted(OLDEST_VERSION)} or newer in this Python."
        )


def parse_url(url: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The path for SQLite and the options, those given beside the URL over those in its query."""
    shown = f"the store URL {url!r}"
    parts = urlsplit(url)
    if parts.fragment or url.endswith("#"):
        raise ConfigurationError(f"{shown} has a part after #, which no store reads. Write # in a file name as %23.")
    path = unquote(parts.path).removeprefix("/")
    in_query: dict[str, Any] = {}
    if parts.scheme == "memory":
        if parts.netloc or path:
            raise ConfigurationError(f"{shown}: memory:// takes no name; every such store is its own.")
        path, in_query = ":memory:", _query(parts.query, shown)
    elif parts.netloc:
        raise ConfigurationError(f"{shown} names the host {parts.netloc!r}. Write sqlite:///file with three slashes.")
    elif path.startswith("file:"):
        path = f"{path}?{parts.query}" if parts.query else path
    else:
        in_query = _query(parts.query, shown)
    if not path:
        raise ConfigurationError(f"{shown} names no file. Write for example sqlite:///jobs.db.")
    merged = {**in_query, **options}
    refuse_unknown(merged, OPTIONS, shown)
    return path, merged


def check_path(path: object) -> str:
    """A path that names one database for all of its connections, also after the process changed its folder."""
    if not isinstance(path, str) or not path:
        raise ConfigurationError(f"{path!r} names no SQLite file.")
    if "\0" in path:
        raise ConfigurationError(f"{path!r}: a file name cannot hold a NUL character.")
    if path == ":memory:" or path.startswith("file:"):
        return _fixed_uri(path)
    return os.path.abspath(path)


def _fixed_uri(path: str) -> str:
    """The same for a URI of SQLite's own: a file in the current folder is named in full."""
    name, mark, query = path.removeprefix("file:").partition("?")
    if is_in_memory(path) or not name or name.startswith(("/", "%2F", "%2f", "#")):
        return path
    return f"file:{quote(os.fsencode(file_of(path)))}{mark}{query}"


def file_of(path: str) -> str:
    """The file behind a path, which may be a URI of SQLite's own."""
    if not path.startswith("file:"):
        return path
    name = unquote(path.removeprefix("file:").partition("?")[0].partition("#")[0])
    if name.startswith("//"):
        # An authority, of which SQLite knows none and localhost.
        name = name[name.index("/", 2) :] if "/" in name[2:] else name
    return os.path.abspath(name)


def existing_only(path: str) -> str:
    """The same database as a URI that opens it, and makes no new file where there is none."""
    if not path.startswith("file:"):
        return f"file:{quote(os.fsencode(path))}?mode=rw"  # a file name need not be a text
    name, _, query = path.partition("?")
    if "mode" in parse_qs(query):
        return path
    return f"{name}?{query}&mode=rw" if query else f"{name}?mode=rw"


def is_in_memory(path: str) -> bool:
    """Whether the database lives in this process's memory, so that one connection has to serve everybody."""
    if path == ":memory:":
        return True
    if not path.startswith("file:"):
        return False
    name, _, query = path.removeprefix("file:").partition("?")
    parameters = parse_qs(query)
    # SQLite takes the last of a parameter that stands there twice.
    memory, vfs = (parameters.get(key, [""])[-1] for key in ("mode", "vfs"))
    return unquote(name) == ":memory:" or memory == "memory" or vfs == "memdb"


def _query(query: str, shown: str) -> dict[str, Any]:
    pairs = parse_qsl(query, keep_blank_values=True)
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name in found if sum(name == other for other, _ in pairs) > 1)
        raise ConfigurationError(f"{shown} gives {twice!r} twice.")
    return found


def _prefix(value: object) -> str:
    prefix = check_prefix(value)
    if prefix.startswith("sqlite_"):
        raise ConfigurationError(f"prefix: {prefix!r} cannot name tables; SQLite keeps names with sqlite_ for itself.")
    return prefix


def _seconds(value: object, name: str) -> float:
    try:
        seconds = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < 86_400:
        raise ConfigurationError(f"{name}: {value!r} is not a number of seconds from 0 to 86400.")
    return seconds


def _one_of(value: object, allowed: tuple[str, ...], name: str) -> str:
    if not isinstance(value, str) or value.upper() not in allowed:
        raise ConfigurationError(f"{name}: {value!r} is not one of {', '.join(allowed)}.")
    return value.upper()


def _returning(value: object, library: tuple[int, ...]) -> bool:
    able = library >= RETURNING_VERSION
    if value is None:
        return able
    spelled = str(value).lower() if isinstance(value, str | bool) else ""
    if spelled not in _YES + _NO:
        raise ConfigurationError(f"returning: {value!r} is neither True nor False.")
    wanted = spelled in _YES
    if wanted and not able:
        raise ConfigurationError(
            f"returning: SQLite {_dotted(library)} cannot answer rows from an UPDATE; that came with "
            f"{_dotted(RETURNING_VERSION)}. Leave the option out."
        )
    return wanted


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
