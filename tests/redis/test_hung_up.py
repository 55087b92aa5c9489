"""A server that ends a connection behind its answer, as Redis does with what it could not read: it is used no more.

It takes a moment to end it, so whoever is next might still find it open.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.redis.links import KINDS, answer, link_to
from tinyjobs.core.errors import DataRefusedError

REFUSAL = b"-ERR Protocol error: invalid bulk length\r\n"


@pytest.fixture
def slow_to_hang_up() -> Iterator[str]:
    """The URL of a server that refuses SET so, and hangs up when the next command comes or a second later."""
    stop = threading.Event()

    def talk(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(10)
            while data := client.recv(1 << 16):
                if b"SET\r\n" in data and b"CLIENT" not in data:
                    client.sendall(REFUSAL)
                    client.settimeout(1)
                    client.recv(1 << 16)
                    return
                for _ in range(data.count(b"*")):
                    client.sendall(b"+PONG\r\n" if b"PING" in data else b"+OK\r\n")

    def serve(listener: socket.socket) -> None:
        while not stop.is_set():
            with suppress(TimeoutError):
                client, _ = listener.accept()
                threading.Thread(target=talk, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
        stop.set()
        serving.join()


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_the_server_is_about_to_end_serves_no_other_call(slow_to_hang_up, kind):
    with link_to(kind, slow_to_hang_up) as link:
        for _ in range(3):
            with pytest.raises(DataRefusedError, match="proto-max-bulk-len"):
                answer(link, "SET", "a", "b")
            assert answer(link, "PING") == b"PONG"
