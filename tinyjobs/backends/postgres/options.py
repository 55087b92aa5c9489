"""The Postgres store's URL and options, read once; every error names where the value came from, and no password.

What is neither an option of the store nor one that libpq knows is refused here, rather than by a pool that never opens.
Knows nothing of connections. The driver is asked what libpq knows when there is something to ask.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import unquote

from tinyjobs.backends.optionvalues import parse_seconds, parse_switch
from tinyjobs.backends.sql.statements import DEFAULT_PREFIX, check_prefix
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.url import shown_url

_OFF = ("none", "off", "0")
# What libpq would take, but what decides how our own statements are sent and read.
_OURS = frozenset({"cursor_factory", "row_factory", "prepare_threshold", "autocommit", "context"})

_ESCAPED = "In a user name or password write @ / ? # : % and a blank as %40 %2F %3F %23 %3A %25 %20."


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions:
    """The options as they are meant; times in seconds.

    `schema`: where the tables are, None: where the search path finds them. `min_connections`, `max_connections`: of
    the pool; a worker has one more to listen and one to keep its leases. `pool_timeout`: how long a call waits for a
    connection. `statement_timeout`: None for none. `notify`: whether enqueues wake idle workers.
    """

    prefix: str = DEFAULT_PREFIX
    schema: str | None = None
    min_connections: int = 1
    max_connections: int = 10
    pool_timeout: float = 5.0
    statement_timeout: float | None = 30.0
    notify: bool = True

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "PostgresOptions":
        """Check each option. Texts, as a URL's query has them, are read as what they spell."""
        values = {name: _CHECKS[name](name, value) for name, value in given.items()}
        options = cls(**values)
        if options.min_connections > options.max_connections:
            raise ConfigurationError(
                f"min_connections: {options.min_connections} is more than max_connections, {options.max_connections}."
            )
        return options


OPTIONS = frozenset(field.name for field in fields(PostgresOptions))


def parse_url(url: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], PostgresOptions]:
    """The keywords for libpq and the store's options; those given beside the URL count over those in its query."""
    shown = f"the store URL {shown_url(url)!r}"
    address, query = _taken_apart(url)
    own: dict[str, Any] = {}
    kept = []
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if name in own:
            raise ConfigurationError(f"{shown} gives {name!r} twice.")
        if name in OPTIONS:
            own[name] = unquote(value)
        elif "@" in name:
            raise ConfigurationError(f"{shown} cannot be read. {_ESCAPED}")
        elif part and unquote(name) not in _libpq_keywords() | {"ssl"}:
            raise ConfigurationError(_unknown(shown, unquote(name)))
        elif part:
            kept.append(part)
    keywords = _read_by_libpq(address + ("?" + "&".join(kept) if kept else ""), shown)
    _check_address(address, keywords, shown)
    for name, value in options.items():
        if name in OPTIONS:
            own[name] = value
        elif name in _libpq_keywords():
            keywords[name] = value
        else:
            raise ConfigurationError(_unknown(shown, name))
    try:
        return keywords, PostgresOptions.parse(own)
    except ConfigurationError as error:
        raise ConfigurationError(f"{shown}: {error}") from None


def _taken_apart(url: str) -> tuple[str, str]:
    """The URL up to its query, and that. As libpq does it: before the @ a question mark belongs to the password."""
    scheme, mark, rest = url.partition("://")
    user, at, place = rest.partition("@")
    if not at or "/" in user:
        user, at, place = "", "", rest
    address, _, query = place.partition("?")
    return scheme.lower() + mark + user + at + address, query


def _read_by_libpq(url: str, shown: str) -> dict[str, Any]:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        return dict(conninfo_to_dict(url))
    except (ProgrammingError, UnicodeError) as error:
        # libpq quotes what it cannot read, which may be a password with a character that had to be escaped.
        told = f" ({str(error).strip()})" if "@" not in url and "***" not in shown else ""
        raise ConfigurationError(f"{shown} cannot be read{told}. {_ESCAPED}") from None


def libpq_only(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of the settings of a connection those that libpq knows, as texts or numbers."""
    known = _libpq_keywords()
    return {name: value for name, value in given.items() if name in known and value is not None}


def _libpq_keywords() -> frozenset[str]:
    from psycopg import pq

    names = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    return frozenset(names - _OURS)


def _check_address(address: str, keywords: Mapping[str, Any], shown: str) -> None:
    """What libpq takes for a host, a port or a database where the password had a character with a meaning."""
    host_and_path = address.partition("://")[2]
    if any(character.isspace() for character in host_and_path) or "@" in host_and_path.partition("/")[2]:
        raise ConfigurationError(f"{shown}: a blank, or an @ after a /, has no place there. {_ESCAPED}")
    for host in str(keywords.get("host") or "").split(","):
        if any(character in host for character in "@?# ") or (not host.startswith("/") and "/" in host):
            raise ConfigurationError(f"{shown}: its host cannot be one. {_ESCAPED}")
    for port in str(keywords.get("port") or "").split(","):
        if port and not (port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
            raise ConfigurationError(f"{shown}: its port is no number from 1 to 65535. {_ESCAPED}")


def _unknown(shown: str, name: str) -> str:
    return (
        f"{shown} does not take {name!r}. It takes the store's options ({', '.join(sorted(OPTIONS))}) and the "
        f"connection parameters of libpq."
    )


def _prefix(name: str, value: object) -> str:
    return check_prefix(value)


def _schema(name: str, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and "\0" not in value:
        with suppress(UnicodeEncodeError):
            if 1 <= len(value.encode()) <= 63:
                return value
    raise ConfigurationError(f"{name}: {value!r} cannot be a schema's name, which has 1 to 63 bytes and no NUL.")


def _count(name: str, value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 1000:
        raise ConfigurationError(f"{name}: {value!r} is not a number of connections from 1 to 1000.")
    return number


def _seconds_or_none(name: str, value: object) -> float | None:
    if value is None or str(value).lower() in _OFF:
        return None
    return parse_seconds(name, value)


_CHECKS: dict[str, Any] = {
    "prefix": _prefix,
    "schema": _schema,
    "min_connections": _count,
    "max_connections": _count,
    "pool_timeout": parse_seconds,
    "statement_timeout": _seconds_or_none,
    "notify": parse_switch,
}
