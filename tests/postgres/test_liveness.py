"""What a connection that waits in a pool has heard from its server, seen without asking."""

import os
import socket
import struct
import threading
import time

import pytest
from psycopg import pq

from tinyjobs.backends.postgres.liveness import is_open

pytestmark = pytest.mark.postgres


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def word(kind: bytes, severity: bytes) -> bytes:
    """An error or a notice, as a server writes it."""
    return message(kind, b"".join((b"S" + severity, b"\0V" + severity, b"\0C57P01\0MSo it is.\0\0")))


READY = message(b"R", struct.pack("!i", 0)) + message(b"Z", b"I")


@pytest.fixture
def ends():
    """A connection, and the server's end of it."""
    found = []

    def serve() -> None:
        with listener.accept()[0] as end:
            end.recv(8192)
            end.sendall(READY)
            found.append(end.dup())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        # In steps: the plain way would keep the interpreter, which the server's end needs.
        where = f"host=127.0.0.1 port={port} user=u dbname=d sslmode=disable gssencmode=disable"
        connection = pq.PGconn.connect_start(where.encode())
        while connection.connect_poll() not in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            time.sleep(0.001)
        thread.join()
    with found[0] as end:
        assert connection.status == pq.ConnStatus.OK
        yield connection, end
        connection.finish()


def arrives(connection, *messages):
    """Wait until the last of them is there."""
    with socket.socket(fileno=os.dup(connection.socket)) as twin:
        twin.settimeout(10.0)
        while len(twin.recv(8192, socket.MSG_PEEK)) < sum(map(len, messages)):
            pass


@pytest.mark.parametrize(
    ("messages", "is_fine"),
    [
        ((), True),
        ((word(b"N", b"WARNING"),), True),
        ((message(b"S", b"TimeZone\0UTC\0"),), True),
        ((message(b"A", struct.pack("!i", 7) + b"channel\0payload\0"),), True),
        ((word(b"E", b"FATAL"),), False),
        ((word(b"N", b"WARNING"), word(b"E", b"FATAL")), False),
        ((word(b"E", b"PANIC"),), False),
    ],
    ids=["silence", "a warning", "a setting", "a notification", "its end", "a warning and its end", "its panic"],
)
def test_the_servers_last_word_is_heard_though_the_connection_has_not_ended_yet(ends, messages, is_fine):
    connection, end = ends
    told = []
    connection.notice_handler = told.append
    if messages:
        end.sendall(b"".join(messages))
        arrives(connection, *messages)
    assert is_open(connection) is is_fine
    assert is_open(connection) is is_fine, "and it stays so"
    assert (connection.status == pq.ConnStatus.OK) is is_fine, "so that a pool makes another one in its place"
    assert len(told) == sum(one[:1] in b"NE" for one in messages), "whoever listens hears all the same"


def test_a_connection_that_has_ended_is_not_open(ends):
    connection, end = ends
    end.shutdown(socket.SHUT_RDWR)
    with socket.socket(fileno=os.dup(connection.socket)) as twin:
        twin.settimeout(10.0)
        assert twin.recv(1, socket.MSG_PEEK) == b""
    assert not is_open(connection)
