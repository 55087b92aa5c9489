"""Whether a connection still has its server, seen without asking it, and how to end one that waits for an answer.

Works on libpq's connection alone; knows neither pools nor statements.
"""

from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq

from tinyjobs.backends import sockets

# With these words a server ends the connection; the end itself may come a moment later.
_LAST_WORDS = (b"FATAL", b"PANIC")


def is_open(pgconn: Any) -> bool:
    """Read what the server has sent already, without asking it: a connection that it has closed is not used.

    Nor is one that it is about to close, which is closed here. What it says goes where it always goes.
    """
    if pgconn.status != pq.ConnStatus.OK:
        return False
    if not sockets.is_readable(pgconn.socket):
        return True
    heard: list[bytes | None] = []
    listener = pgconn.notice_handler

    def listen(word: Any) -> None:
        # Now: libpq takes the word back when this returns.
        heard.append(word.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED))
        if listener is not None:
            listener(word)

    pgconn.notice_handler = listen
    try:
        with suppress(psycopg.OperationalError):
            # Not once: before the end of the connection comes the server's last word.
            while pgconn.status == pq.ConnStatus.OK and sockets.is_readable(pgconn.socket):
                pgconn.consume_input()
                while pgconn.notifies() is not None:
                    continue
    finally:
        pgconn.notice_handler = listener
    if any(word in _LAST_WORDS for word in heard):
        pgconn.finish()
    return bool(pgconn.status == pq.ConnStatus.OK)


def cut_off(pgconn: Any) -> None:
    """End the connection under its statement, which then fails as if the server had gone."""
    if pgconn.status == pq.ConnStatus.OK:
        sockets.cut_off(pgconn.socket)
