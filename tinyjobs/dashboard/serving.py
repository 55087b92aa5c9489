"""A server for the dashboard alone: each request in a thread, a bounded number at a time, on one address.

For looking at a store from the machine it runs on, or through a tunnel. It belongs behind a proxy otherwise. Imported
by the command once it is chosen.
"""

import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from socketserver import TCPServer
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tinyjobs.cli.target import AppTarget, Target
from tinyjobs.dashboard.minimal import ready_django
from tinyjobs.operations.binding import BoundedThreads, bind, shown_url

logger = logging.getLogger("tinyjobs.dashboard")

_NAME = "tinyjobs"
# A client that says nothing, or does not read, is left after so many seconds.
_SILENCE = 30.0
# Requests under way at once; further clients are turned away.
_MOST_AT_ONCE = 32


@contextmanager
def served(target: Target, host: str, port: int, hosts: Sequence[str]) -> Iterator[str]:
    """Serve the dashboard of a target in threads; gives its address. Raises `ConfigurationError` if it cannot.

    `port` 0 stands for any that is free. `hosts` are the names that a request may give, beside the loopback's.
    """
    ready_django()
    from tinyjobs.dashboard.alone import desks_of
    from tinyjobs.dashboard.mounts import Wsgi
    from tinyjobs.dashboard.services import alias_desks

    desks = desks_of(target.app, target.name) if isinstance(target, AppTarget) else alias_desks
    application = Wsgi(desks, hosts)
    server = bind(
        host,
        port,
        lambda family, address: _Server(family, address, application),
        host_flag="--host",
        port_flag="--port",
    )
    thread = threading.Thread(
        target=server.serve_forever, name="tinyjobs-dashboard", kwargs={"poll_interval": 0.1}, daemon=True
    )
    thread.start()
    try:
        yield shown_url(server.server_address)
    finally:
        server.shutdown()
        server.server_close()


class _Server(BoundedThreads, WSGIServer):
    request_queue_size = 64
    most_at_once = _MOST_AT_ONCE
    logger = logger

    def __init__(self, family: socket.AddressFamily, address: Any, application: Any) -> None:
        self.address_family = family
        super().__init__(address, _Handler)
        self.set_app(_signed(application))

    def server_bind(self) -> None:
        """Without asking a name service for this machine's name, which may take long."""
        TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()


def _signed(application: Any) -> Any:
    """The application with a header that names the server without versions, which the server would put there itself."""

    def signed(environ: Any, start: Any) -> Any:
        def begin(status: str, headers: list[tuple[str, str]], *trouble: Any) -> Any:
            return start(status, [*headers, ("Server", _NAME)], *trouble)

        return application(environ, begin)

    return signed


class _Handler(WSGIRequestHandler):
    server_version = _NAME
    sys_version = ""
    timeout = _SILENCE

    def log_message(self, format: str, *args: Any) -> None:
        """Pages that refresh themselves would fill a log."""
        logger.debug(format, *args)
