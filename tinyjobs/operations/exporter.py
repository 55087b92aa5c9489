"""Serves the metrics of one worker to whoever scrapes them: `GET /metrics` on a port, by threads of its own.

Imported only when a worker is told to serve them. It asks the store by a connection of its own, so a worker whose
event loop hangs is scraped all the same. Nothing that a client does reaches the worker.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.job import Stats
from tinyjobs.core.trouble import is_transient, log_failure
from tinyjobs.operations.binding import BoundedThreads, bind, shown_url
from tinyjobs.operations.metrics import CONTENT_TYPE, Metrics
from tinyjobs.operations.timely import GIVEN_UP_AFTER, GIVEN_UP_AT_LAST_AFTER
from tinyjobs.runtime.ownloop import DaemonExecutor

logger = logging.getLogger("tinyjobs.metrics")

PATH: Final = "/metrics"
#: For so many seconds a scrape waits for the store: Prometheus gives up after ten unless told otherwise.
PATIENCE: Final = 5.0
# A client that says nothing, or does not read, is left after so many seconds.
_SILENCE = 10.0
# And one that sends or reads a byte now and then, after so many: Prometheus itself waits for ten.
_LONGEST = 20.0
# Scrapes under way at once; further clients are turned away.
_MOST_AT_ONCE = 16


class Figures:
    """Asks a store for its figures, one question at a time, and waits no longer than `patience` seconds.

    A driver may take far longer to give up than whoever scrapes. What is still being asked then is not asked twice, but
    for a question that is not answered at all: see `operations/timely.py`.
    """

    def __init__(self, read: Callable[[], Stats], patience: float = PATIENCE, clock: Clock | None = None) -> None:
        self._read = read
        self._patience = patience
        self._monotonic = (clock or SystemClock()).monotonic
        self._thread = _one_thread()
        self._lock = threading.Lock()
        self._asked: Future[Stats] | None = None
        self._asked_at = 0.0
        self._alone_for = GIVEN_UP_AFTER
        self._is_failing = False

    def ask(self) -> Stats | None:
        """The figures, or None: the store could not answer, or not in time."""
        try:
            stats = self._question().result(self._patience)
        except NoAnswer as error:
            self._failed(error, f"no answer within {self._patience:g} s")
            return None
        except Exception as error:
            self._failed(error, error)
            return None
        self._is_failing = False
        return stats

    def _question(self) -> "Future[Stats]":
        with self._lock:
            now = self._monotonic()
            if self._asked is None or self._asked.done():
                self._alone_for = GIVEN_UP_AFTER
            elif now - self._asked_at <= self._alone_for:
                return self._asked
            else:
                # Its thread, and the connection that it has, are left to it.
                self._thread.shutdown(wait=False)
                self._thread = _one_thread()
                self._alone_for = min(2 * self._alone_for, GIVEN_UP_AT_LAST_AFTER)
            self._asked, self._asked_at = self._thread.submit(self._read), now
            return self._asked

    def _failed(self, error: Exception, reason: object) -> None:
        """Say so once. Of a store that is out of reach the worker itself has told."""
        was_failing, self._is_failing = self._is_failing, True
        if was_failing or is_transient(error):
            return
        if isinstance(error, NoAnswer):
            logger.warning("the metrics lack the store's figures: %s", reason)
        else:
            log_failure(logger, error, "the metrics lack the store's figures: %s")

    def close(self) -> None:
        """Ask no more. Waits for nothing."""
        self._thread.shutdown(wait=False)


def _one_thread() -> DaemonExecutor:
    return DaemonExecutor(1, thread_name_prefix="tinyjobs-figures")


class Exporter:
    """A server for one collector; in a `with` block it serves. Raises `ConfigurationError` where it cannot listen.

    `port` 0 stands for any that is free. Of a host name the IPv4 address comes first.
    """

    def __init__(self, metrics: Metrics, read: Callable[[], Stats], host: str, port: int) -> None:
        self._figures = Figures(read)
        self._server = _listen(host, port, lambda: metrics.render(self._figures.ask(), asked=True))
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="tinyjobs-metrics", kwargs={"poll_interval": 0.1}, daemon=True
        )

    @property
    def url(self) -> str:
        """Where the metrics are."""
        return shown_url(self._server.server_address, PATH)

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop, and give the port back. A scrape under way is left to its thread."""
        self._server.shutdown()
        self._server.server_close()
        self._figures.close()


class _Server(BoundedThreads, TCPServer):
    """Like the standard library's HTTP server, but it asks no name service for its own name."""

    most_at_once = _MOST_AT_ONCE
    longest = _LONGEST
    logger = logger
    # So that a restarted worker has its port back at once. On Windows it would share it with a stranger.
    allow_reuse_address = os.name != "nt"
    request_queue_size = 32

    def __init__(self, family: socket.AddressFamily, address: Any, render: Callable[[], str]) -> None:
        self.address_family = family
        self.render = render
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "tinyjobs"
    sys_version = ""
    timeout = _SILENCE

    def do_GET(self) -> None:
        """Answer a scrape."""
        self._answer()

    def do_HEAD(self) -> None:
        """The same without its body."""
        self._answer()

    def _refuse(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "GET or HEAD.\n", "text/plain", {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse

    def _answer(self) -> None:
        try:
            path = urlsplit(self.path).path
        except ValueError:  # an address that is none
            path = ""
        if path == PATH:
            self._send(HTTPStatus.OK, self.server.render(), CONTENT_TYPE)
        else:
            self._send(HTTPStatus.NOT_FOUND, f"The metrics are at {PATH}.\n", "text/plain")

    def _send(self, status: HTTPStatus, text: str, kind: str, more: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store", **(more or {})}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A worker's log is about jobs."""


def _listen(host: str, port: int, render: Callable[[], str]) -> _Server:
    def make(family: socket.AddressFamily, address: Any) -> _Server:
        return _Server(family, address, render)

    return bind(host, port, make, host_flag="--metrics-host", port_flag="--metrics-port")
