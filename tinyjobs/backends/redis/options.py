"""The Redis store's URL and options, read once; every error names where the value came from, and no password.

The URL is read here and not by the driver, whose releases differ in what they let pass. What is neither an option of
the store nor one that a connection of the driver's takes is refused, rather than by the first command. Knows nothing
of connections but the names of their options.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from typing import Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from tinyjobs.backends.redis.values import is_off, read_value
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.url import shown_url

type Kind = Literal["tcp", "tls", "unix"]

DEFAULT_PREFIX = "tinyjobs"
_KINDS: dict[str, Kind] = {"redis": "tcp", "valkey": "tcp", "rediss": "tls", "valkeys": "tls", "unix": "unix"}
# What the driver calls the time that a caller waits for its pool.
_ALIASES = {"timeout": "pool_timeout"}

_ESCAPED = "In a user name or password write @ / ? # : % & and a blank as %40 %2F %3F %23 %3A %25 %26 %20."
_IF_PART = (
    " If that is a part of the password: in there write @ / ? # : % & and a blank as in a URL, such as %26 for &."
)
_TWICE = (
    "A script that is sent again runs twice, so the client must not try again by itself; tinyjobs settles a lost "
    "answer."
)
# What a connection would take, but what would change what the store's own calls mean.
_REFUSED = {
    "decode_responses": "The store reads its answers as bytes.",
    "retry": _TWICE,
    "retry_on_timeout": _TWICE,
    "retry_on_error": _TWICE,
}
# Of no consequence here: the store's answers are the same in either protocol, and it speaks the older one.
_IGNORED = frozenset({"protocol", "legacy_responses"})
_SETTINGS = frozenset(
    [
        "db",
        "username",
        "password",
        "host",
        "port",
        "path",
        "client_name",
        "credential_provider",
        "socket_keepalive",
        "socket_keepalive_options",
        "socket_type",
        "socket_read_size",
    ]
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and how one gets in: the keywords for a connection of the driver's of that kind."""

    kind: Kind
    keywords: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions:
    """The options as they are meant; times in seconds.

    `prefix`: before every key, as a hash tag, so that all keys are in one slot. `max_connections`: of the pool; a
    worker has one more to listen. `pool_timeout`: how long a call waits for a connection. `socket_timeout`: how long
    for an answer, while nothing of it or of the command moves. `socket_connect_timeout`: how long for a new connection.
    `health_check_interval`: a connection that was not used for longer is replaced. `notify`: whether enqueues wake idle
    workers.
    """

    prefix: str = DEFAULT_PREFIX
    max_connections: int = 100
    pool_timeout: float = 5.0
    socket_timeout: float = 10.0
    socket_connect_timeout: float = 5.0
    health_check_interval: float = 30.0
    notify: bool = True

    @property
    def tag(self) -> str:
        """The prefix as it stands before every key."""
        return f"{{{self.prefix}}}"


OPTIONS = frozenset(field.name for field in fields(RedisOptions))


def parse_url(url: str, options: Mapping[str, Any]) -> tuple[Address, RedisOptions]:
    """Where the server is, and the store's options; those given beside the URL count over those in its query."""
    shown = f"the store URL {shown_url(url)!r}"
    kind, parts = _taken_apart(url, shown)
    query = _query(parts.query, shown)
    hides = parts.password is not None or bool(query.keys() & {"password", "username"})
    if query:
        # What is misspelled in there may be a password.
        shown = f"the store URL {shown_url(url.partition('?')[0])!r}"
    keywords = _of_unix(parts, shown) if kind == "unix" else _of_network(parts, shown)
    own: dict[str, Any] = {}
    for given, quotes in ((query, _Quotes.NOTHING if hides else _Quotes.URL), (options, _Quotes.OPTION)):
        for name, value in sorted_out(given, kind, shown, quotes=quotes).items():
            (own if name in OPTIONS else keywords)[name] = value
    return address_of(kind, keywords, shown), RedisOptions(**own)


class _Quotes(Enum):
    """What an error about a value says beside the option's name: the value; the URL as well; neither."""

    OPTION = auto()
    URL = auto()
    NOTHING = auto()


def sorted_out(
    given: Mapping[str, Any], kind: Kind, source: str, *, quotes: _Quotes = _Quotes.OPTION
) -> dict[str, Any]:
    """Of what was given, what is an option of the store's or of a connection of that kind, each read as what it means.

    The rest is refused. What a URL's query has beside a password is not quoted, nor is a name in there that is
    unknown: it may be a part of that.
    """
    may_tell = quotes is not _Quotes.NOTHING
    taken: dict[str, Any] = {}
    for name, value in given.items():
        name = _ALIASES.get(name, name)
        if name in taken:
            raise ConfigurationError(f"{source} gives {name!r} twice, once as 'timeout'.")
        if name in _REFUSED:
            if not is_off(value):
                raise ConfigurationError(f"{source} does not take {name!r}. {_REFUSED[name]}")
        elif name in OPTIONS or name in takes(kind):
            taken[name] = _read(name, value, source, quotes)
        elif name not in _IGNORED:
            told = f"{name!r}" if may_tell else "one of the options in its query"
            raise ConfigurationError(
                f"{source} does not take {told}.{'' if may_tell else _IF_PART} It takes the store's options "
                f"({', '.join(sorted(OPTIONS))}) and the settings of a connection ({', '.join(sorted(takes(kind)))})."
            )
    return taken


def _read(name: str, value: Any, source: str, quotes: _Quotes) -> Any:
    try:
        return read_value(name, value)
    except ConfigurationError as error:
        if quotes is _Quotes.OPTION:
            raise
        if quotes is _Quotes.URL:
            raise ConfigurationError(f"{source}: {error}") from None
    raise ConfigurationError(f"{source}: the value of {name!r} in its query cannot be read.{_IF_PART}")


def takes(kind: Kind) -> frozenset[str]:
    """The options of the driver's connections of that kind that are settings, as the driver's release has them."""
    import redis

    names: set[str] = set()
    classes = {"tcp": redis.Connection, "tls": redis.SSLConnection, "unix": redis.UnixDomainSocketConnection}
    for each in classes[kind].__mro__:
        if each is not object:
            names |= set(inspect.signature(each).parameters)
    return frozenset(name for name in names if name in _SETTINGS or name.startswith("ssl_"))


def address_of(kind: Kind, keywords: Mapping[str, Any], source: str) -> Address:
    """The address with these settings, which are read. Raises `ConfigurationError` where they contradict each other."""
    if keywords.get("credential_provider") is not None and (keywords.get("username") or keywords.get("password")):
        raise ConfigurationError(f"{source}: credential_provider, or a user name and a password, not both.")
    return Address(kind, keywords)


# --- the URL ----------------------------------------------------------------------------------------------------------


def _taken_apart(url: str, shown: str) -> tuple[Kind, SplitResult]:
    scheme = url.partition("://")[0].lower()
    if "cluster" in scheme:
        raise ConfigurationError(f"{shown}: {_NO_CLUSTER}")
    if scheme not in _KINDS:
        raise ConfigurationError(f"{shown}: its scheme is none of {', '.join(sorted(_KINDS))}.")
    if any(character.isspace() or not character.isprintable() for character in url):
        # The standard library leaves some of them out without a word.
        raise ConfigurationError(
            f"{shown} cannot be read: a blank or a control character has no place there. {_ESCAPED}"
        )
    try:
        parts = urlsplit(url)
        _ = parts.port, parts.hostname
    except ValueError:
        # Python quotes what it cannot read, which may be the password.
        parts = None
        shown = _AS_PORT.sub(r"\1***\3", shown)
    place = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if "," in place:
        raise ConfigurationError(f"{shown} names several hosts. {_NO_CLUSTER}")
    if parts is None or parts.fragment or "#" in url or "@" in parts.query:
        raise ConfigurationError(f"{shown} cannot be read. {_ESCAPED}")
    return _KINDS[scheme], parts


# What stands in the place of a port and is no number, as where a host is missing behind a password.
_AS_PORT = re.compile(r"(://[^/?#@:]*:)(?!\d+[/?#'])([^/?#@]*?)([/?#']|$)")
_NO_CLUSTER = (
    "All keys of a store are in one slot, so a cluster would hold them on one node: give the URL of a single server, "
    "or of the primary of a replicated one."
)


def _query(query: str, shown: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        name, equals, value = part.partition("=")
        name = unquote(name)
        if name in found:
            raise ConfigurationError(f"{shown} gives {name!r} twice.")
        if name in OPTIONS and not equals:
            raise ConfigurationError(f"{shown} gives {name!r} no value.")
        found[name] = unquote(value)
    return found


def _of_network(parts: SplitResult, shown: str) -> dict[str, Any]:
    keywords = _who(parts)
    if parts.hostname:
        keywords["host"] = unquote(parts.hostname)
    if any(character in keywords.get("host", "") for character in "@/?#"):
        raise ConfigurationError(f"{shown}: its host cannot be one. {_ESCAPED}")
    if parts.port is not None:
        keywords["port"] = parts.port
        if not parts.port:
            raise ConfigurationError(f"{shown}: its port is no number from 1 to 65535. {_ESCAPED}")
    database = unquote(parts.path).strip("/")
    if database:
        if not (database.isdecimal() and database.isascii() and len(database) < 6):
            # Not quoted: behind a password with a raw slash it is the rest of that.
            raise ConfigurationError(f"{shown}: the database behind the host is a number, such as /0. {_ESCAPED}")
        keywords["db"] = int(database)
    return keywords


def _of_unix(parts: SplitResult, shown: str) -> dict[str, Any]:
    keywords = _who(parts)
    path = unquote(parts.path)
    if parts.netloc.rpartition("@")[2] or ("@" in parts.netloc and "@" in parts.path):
        raise ConfigurationError(
            f"{shown}: between the password and the path of the socket there is nothing, as in "
            f"unix://:password@/run/redis.sock. {_ESCAPED} In a path behind a password write @ as %40."
        )
    if len(path) < 2:
        raise ConfigurationError(f"{shown} names no socket, as in unix:///run/redis.sock.")
    return {**keywords, "path": path}


def _who(parts: SplitResult) -> dict[str, Any]:
    named = {"username": parts.username, "password": parts.password}
    return {name: unquote(value) for name, value in named.items() if value}
