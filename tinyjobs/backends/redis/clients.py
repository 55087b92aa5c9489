"""What a client of the driver's that is handed in says of its server. Its settings are read, its connections untouched.

A pool of somebody else's may try again by itself, decode what it reads, or raise where ours waits; so the store opens
its own with the same settings.
"""

from collections.abc import Mapping
from typing import Any

import redis
import redis.asyncio

from tinyjobs.backends.redis.options import OPTIONS, Address, Kind, RedisOptions, address_of, sorted_out, takes
from tinyjobs.core.errors import ConfigurationError

_MOST_CONNECTIONS = 10_000
_KINDS: tuple[tuple[Kind, tuple[type, ...]], ...] = (
    ("tls", (redis.SSLConnection, redis.asyncio.SSLConnection)),
    ("unix", (redis.UnixDomainSocketConnection, redis.asyncio.UnixDomainSocketConnection)),
    ("tcp", (redis.Connection, redis.asyncio.Connection)),
)


def is_client(value: object) -> bool:
    """Whether the store can be given this in place of a URL."""
    return isinstance(value, redis.Redis | redis.asyncio.Redis)


def settings_of(client: Any, options: Mapping[str, Any]) -> tuple[Address, RedisOptions, str]:
    """The server of a client, the options of the store, those given counting over the client's, and how to name it.

    Raises `ConfigurationError` for a client that finds its server in a way of its own.
    """
    pool = getattr(client, "connection_pool", None)
    made = getattr(pool, "connection_class", None)
    if not is_client(client) or pool is None or not isinstance(made, type):
        raise ConfigurationError(
            f"a client of type {type(client).__name__!r} cannot be used: give a redis.Redis or redis.asyncio.Redis "
            f"for a single server, or for the primary of a replicated one."
        )
    settings: dict[str, Any] = pool.connection_kwargs
    if "Sentinel" in made.__name__ or settings.get("redis_connect_func") is not None:
        raise ConfigurationError(
            "the client finds its server in a way of its own, which the store's connections could not: give the URL of "
            "the primary."
        )
    kind = next((kind for kind, classes in _KINDS if issubclass(made, classes)), None)
    if kind is None:
        raise ConfigurationError(f"the client's connections are of a kind unknown here: {made.__name__}.")
    taken = {name: value for name, value in settings.items() if name in takes(kind) and value is not None}
    if not isinstance(taken.get("socket_keepalive_options", {}), Mapping):
        # A mark of the driver's, for its own choice.
        del taken["socket_keepalive_options"]
    given = sorted_out(options, kind, "the store's client")
    beside = {name: value for name, value in given.items() if name not in OPTIONS}
    address = address_of(kind, {**taken, **beside}, "the store's client")
    own = {**_own(pool, settings), **{name: value for name, value in given.items() if name in OPTIONS}}
    return address, RedisOptions(**own), place_of(address)


def place_of(address: Address) -> str:
    """A server as a URL without its password."""
    settings = address.keywords
    user = f"{settings['username']}@" if settings.get("username") else ""
    if address.kind == "unix":
        return f"unix://{user}{settings.get('path', '')}?db={settings.get('db', 0)}"
    scheme = "redis" if address.kind == "tcp" else "rediss"
    host = str(settings.get("host", "localhost"))
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{user}{host}:{settings.get('port', 6379)}/{settings.get('db', 0)}"


def _own(pool: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the client says of times and numbers that are the store's to keep here."""
    found = {
        "socket_timeout": settings.get("socket_timeout"),
        "socket_connect_timeout": settings.get("socket_connect_timeout"),
        "pool_timeout": getattr(pool, "timeout", None),
        "max_connections": getattr(pool, "max_connections", None),
    }
    if not 0 < (found["max_connections"] or 0) <= _MOST_CONNECTIONS:
        del found["max_connections"]
    return {name: value for name, value in found.items() if value}
