"""A link on which much takes its time: a call goes on for as long as something moves, and not when nothing does."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.redis.links import KINDS, answer, link_to
from tinyjobs.core.errors import StoreUnavailableError

#: How long a call waits while nothing moves, and how long it takes at least in which something does.
PATIENCE, TAKES = 2.0, 5.0
PIECES, PIECE = 10, 100_000
SENT = 32_000_000


class Slow:
    """Answers GET in pieces, reads what is long in portions, and falls silent in the middle of an answer to HALF."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client

    def talk(self) -> None:
        with self.client, suppress(OSError):
            while data := self.client.recv(1 << 16):
                if b"\r\nGET\r\n" in data or b"\r\nHALF\r\n" in data:
                    self.tell(silent=b"\r\nHALF\r\n" in data)
                elif b"\r\nSET\r\n" in data and b"CLIENT" not in data:
                    self.take(SENT - len(data))
                else:
                    self.client.sendall(b"+OK\r\n" * data.count(b"*"))

    def tell(self, *, silent: bool) -> None:
        self.client.sendall(b"$%d\r\n" % (PIECES * PIECE))
        for place in range(PIECES):
            if silent and place == PIECES // 2:
                self.client.recv(1)
                return
            time.sleep(TAKES / PIECES)
            self.client.sendall(b"x" * PIECE)
        self.client.sendall(b"\r\n")

    def take(self, left: int) -> None:
        portion = left // 50
        while left > 0:
            time.sleep(TAKES / 50)
            ends = max(left - portion, 0)
            while left > ends and (data := self.client.recv(1 << 16)):
                left -= len(data)
        self.client.settimeout(0.5)
        with suppress(TimeoutError):
            while self.client.recv(1 << 16):
                pass
        self.client.settimeout(None)
        self.client.sendall(b"+OK\r\n")


@pytest.fixture
def slow_server() -> Iterator[str]:
    stop = threading.Event()

    def serve(listener: socket.socket) -> None:
        while not stop.is_set():
            with suppress(TimeoutError):
                client, _ = listener.accept()
                threading.Thread(target=Slow(client).talk, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
        stop.set()
        serving.join()


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_comes_in_pieces_is_waited_for(slow_server, kind):
    with link_to(kind, slow_server, socket_timeout=PATIENCE) as link:
        began = time.monotonic()
        assert answer(link, "GET", "a") == b"x" * (PIECES * PIECE)
        assert time.monotonic() - began >= TAKES


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_that_goes_in_pieces_is_waited_for(slow_server, kind):
    with link_to(kind, slow_server, socket_timeout=PATIENCE) as link:
        began = time.monotonic()
        assert answer(link, "SET", "a", b"x" * SENT) == b"OK"
        assert time.monotonic() - began >= TAKES


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_stops_in_the_middle_is_not(slow_server, kind):
    with link_to(kind, slow_server, socket_timeout=PATIENCE) as link:
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match=r"no answer within 2 s \(socket_timeout\)"):
            answer(link, "HALF", "a")
        assert time.monotonic() - began >= TAKES / 2 + PATIENCE - 0.1
        assert answer(link, "PING") == b"OK"


def test_in_a_hurry_a_slow_answer_is_not_waited_for(slow_server):
    with link_to("loop", slow_server, socket_timeout=PATIENCE) as on:
        assert answer(on, "PING") == b"OK"
        on.link._source.deadline = time.monotonic() + 0.6
        with pytest.raises(StoreUnavailableError, match="in what time was left"):
            answer(on, "GET", "a")
