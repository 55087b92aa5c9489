"""The driver's part: it finds the server, connects, encrypts and signs in. Then the socket is ours.

So its releases may differ in all but that, and a call costs what the socket costs. Two names of the driver's that are
not documented are used here and nowhere else: `_sock` of a connection, and `_writer` of an asynchronous one.
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from inspect import signature
from typing import Any

import redis
import redis.asyncio

from tinyjobs.backends.redis.source import Source

_SYNC = {"tcp": redis.Connection, "tls": redis.SSLConnection, "unix": redis.UnixDomainSocketConnection}
_ASYNC = {
    "tcp": redis.asyncio.Connection,
    "tls": redis.asyncio.SSLConnection,
    "unix": redis.asyncio.UnixDomainSocketConnection,
}
# How soon the kernel finds out that the other side has gone without a word, in seconds, and in tries for the last.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPALIVE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


def open_socket(source: Source, name: str) -> socket.socket:
    """A new connection for a thread, signed in; the server shows it under the name."""
    within = source.within(source.options.socket_connect_timeout)
    raw: Any = _made(source, _SYNC, within)
    try:
        raw.connect()
        if raw.client_name is None:
            with suppress(redis.ResponseError):  # not everybody may give names
                raw.send_command("CLIENT", "SETNAME", name)
                raw.read_response()
        opened: socket.socket = raw._sock
    except BaseException:
        raw.disconnect()
        raise
    # Or it would be closed with the driver's object.
    raw._sock = None
    return opened


async def open_stream(source: Source, name: str) -> asyncio.StreamWriter:
    """The same for the running event loop. Keep the writer: its transport is closed with it."""
    within = source.within(source.options.socket_connect_timeout)
    raw: Any = _made(source, _ASYNC, None)
    try:
        async with asyncio.timeout(within):
            await raw.connect()
            if raw.client_name is None:
                with suppress(redis.ResponseError):
                    await raw.send_command("CLIENT", "SETNAME", name)
                    await raw.read_response()
            opened: asyncio.StreamWriter = raw._writer
    except BaseException as error:
        with suppress(Exception):
            await raw.disconnect(nowait=True)
        if isinstance(error, TimeoutError):
            raise source.unopened() from error
        raise
    raw._reader = raw._writer = None
    return opened


def _made(source: Source, classes: Mapping[str, Any], answers_within: float | None) -> Any:
    """A connection of the driver's, not yet open. It tries nothing twice."""
    address = source.address()
    kind = classes[address.kind]
    keywords: dict[str, Any] = {
        "socket_timeout": answers_within,
        "socket_connect_timeout": source.within(source.options.socket_connect_timeout),
        "socket_keepalive": True,
        "socket_keepalive_options": _keepalive_options(),
        "protocol": 2,
        **address.keywords,
    }
    return kind(**{name: value for name, value in keywords.items() if name in _known(kind)})


@cache
def _known(kind: Any) -> frozenset[str]:
    """What a connection of this release of the driver's may be given."""
    return frozenset(
        name for each in kind.__mro__ if each is not object for name in signature(each.__init__).parameters
    )


@cache
def _keepalive_options() -> dict[int, int]:
    return {getattr(socket, name): value for name, value in _KEEPALIVE if hasattr(socket, name)}
