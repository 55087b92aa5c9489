"""Where a small server of ours listens, and in plain words why it cannot. Knows no protocol."""

import errno
import logging
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any, ClassVar

from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import ConfigurationError


class BoundedThreads(ThreadingMixIn):
    """Answers each request in a thread, `most_at_once` of them at a time; further clients are turned away.

    For a server of the standard library, in front of its class. A client that left in the middle is told to `logger`.
    With `longest`, one that takes more seconds than that loses its connection: a client that sends a byte now and then
    is never silent, and a few of them would hold every place.
    """

    daemon_threads = True
    block_on_close = False
    most_at_once: ClassVar[int]
    longest: ClassVar[float | None] = None
    logger: ClassVar[logging.Logger]

    def __init__(self, *given: Any) -> None:
        self._places = threading.Semaphore(self.most_at_once)
        self._monotonic = SystemClock().monotonic
        # When each began that is under way, in that order.
        self._began: dict[Any, float] = {}
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if there is a place left."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[attr-defined]
            return
        self._began[request] = self._monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, in that thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request)

    def service_actions(self) -> None:
        """Between two looks for clients: part with those that have taken too long."""
        super().service_actions()  # type: ignore[misc]
        if self.longest is None:
            return
        for request, began in list(self._began.items()):
            if self._monotonic() - began <= self.longest:
                break
            # Its thread wakes up, finds nobody there and ends.
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def _leave(self, request: Any) -> None:
        self._began.pop(request, None)
        self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left in the middle is no trouble."""
        self.logger.debug("a request could not be answered", exc_info=sys.exception())


def bind[T](
    host: str, port: int, make: Callable[[socket.AddressFamily, Any], T], *, host_flag: str, port_flag: str
) -> T:
    """The server that `make` makes of a family and an address. Of a host name the IPv4 address comes first.

    Raises `ConfigurationError`, naming the flags, where it cannot listen. Of a port that is taken the other family is
    not tried: nobody would look for the server there.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{host_flag} {host}: there is no such address here: {error}.") from error
    family, _, _, _, address = min(found, key=lambda one: one[0] is not socket.AF_INET)
    try:
        return make(family, address)
    except OSError as error:
        raise ConfigurationError(f"{port_flag} {port}: {_reason(error, f'{host_flag} {host}', host)}") from error


def shown_url(address: Any, path: str = "/") -> str:
    """The address of a server that listens, as something to click on."""
    host, port = address[:2]
    return f"http://{f'[{host!s}]' if ':' in str(host) else host!s}:{port}{path}"


def _reason(error: OSError, flag: str, host: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"another program listens there on {host} already. Stop it, or choose another port for one of them."
    if error.errno == errno.EACCES:
        return "this user may not listen on that port. Choose one above 1023."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{flag} is no address of this machine."
    return f"cannot listen on {host}: {error}."
