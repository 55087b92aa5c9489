"""Whether a connection still has its server, seen without asking it, and how to end one that waits for an answer.

Works on libpq's connection alone; knows neither pools nor statements.
"""

import os
import select
import socket
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq


def is_open(pgconn: Any) -> bool:
    """Read what the server has sent already, without asking it: a connection it has closed is not used."""
    with suppress(psycopg.OperationalError):
        # Not once: before the end of the connection comes the server's last word.
        while pgconn.status == pq.ConnStatus.OK and _is_readable(pgconn.socket):
            pgconn.consume_input()
            while pgconn.notifies() is not None:
                continue
    return bool(pgconn.status == pq.ConnStatus.OK)


def _is_readable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], 0)[0])
    # A process with many files open has descriptors too large for `select`.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def cut_off(pgconn: Any) -> None:
    """End the connection under its statement, which then fails as if the server had gone."""
    if pgconn.status == pq.ConnStatus.OK:
        with suppress(OSError), socket.socket(fileno=os.dup(pgconn.socket)) as twin:
            twin.shutdown(socket.SHUT_RDWR)
