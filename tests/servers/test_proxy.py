"""The proxy's controls, each against a plain server that sends back what it gets."""

import socket
import threading
import time
from contextlib import closing, suppress

import pytest

from tests.servers.proxy import RESET_ON_CLOSE, Proxy

PATIENCE = 20.0


class Echo:
    """Sends back what it gets, counts connections, and tells of each that has ended."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.ended = threading.Semaphore(0)
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def port(self):
        return self.listener.getsockname()[1]

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # closing alone would not wake who waits for a connection
        except OSError:
            pass
        self.listener.close()

    def serve(self, connection):
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                pass
        self.ended.release()


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo):
    with Proxy("127.0.0.1", echo.port) as made:
        yield made


@pytest.fixture
def client(proxy):
    with connect(proxy) as connection:
        yield connection


def connect(proxy):
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE)


def exchange(connection, data=b"hello"):
    connection.sendall(data)
    return receive(connection, len(data))


def receive(connection, count):
    got = b""
    while len(got) < count:
        part = connection.recv(count - len(got))
        if not part:
            break
        got += part
    return got


def is_silent(connection):
    """Whether nothing arrives, for a while that is long compared with loopback."""
    connection.settimeout(0.1)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE)
    return False


def test_much_passes_both_ways(proxy, client):
    data = bytes(range(256)) * 40_000
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    assert receive(client, len(data)) == data
    sender.join()
    assert (proxy.passed("to_server"), proxy.passed("to_client")) == (len(data), len(data))


def test_an_end_is_passed_on(proxy, echo, client):
    client.sendall(b"last")
    client.shutdown(socket.SHUT_WR)
    assert receive(client, 100) == b"last"
    assert echo.ended.acquire(timeout=PATIENCE)
    while proxy.connections:
        time.sleep(0.001)


def test_a_reset_is_passed_on(proxy, echo, client):
    assert exchange(client) == b"hello"
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.close()
    assert echo.ended.acquire(timeout=PATIENCE)
    assert proxy.connections == 0


def test_a_delay_holds_up_what_is_sent_afterwards(proxy, client):
    proxy.delay(0.1, "to_server")
    proxy.delay(0.05, "to_client")
    begin = time.monotonic()
    assert exchange(client) == b"hello"
    assert time.monotonic() - begin >= 0.15
    proxy.delay(0)
    assert exchange(client, b"again") == b"again"


def test_delayed_data_keeps_its_order_when_the_delay_shrinks(proxy, client):
    proxy.delay(0.5, "to_server")
    client.sendall(b"first ")
    assert is_silent(client)
    proxy.delay(0, "to_server")
    client.sendall(b"second")
    assert receive(client, 12) == b"first second"


def test_cutting_resets_all_and_lets_new_ones_in(proxy, echo, client):
    with connect(proxy) as other:
        assert exchange(client) == exchange(other) == b"hello"
        assert proxy.cut() == 2
        assert proxy.connections == 0
        for connection in (client, other):
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
    assert echo.ended.acquire(timeout=PATIENCE) and echo.ended.acquire(timeout=PATIENCE)
    with connect(proxy) as later:
        assert exchange(later) == b"hello"
    assert proxy.accepted == 3


def test_refusing_leaves_those_that_are_there(proxy, client):
    assert exchange(client) == b"hello"
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    assert exchange(client) == b"hello"
    proxy.accept()
    with connect(proxy) as later:
        assert exchange(later) == b"hello"


def test_a_stall_holds_everything_and_loses_nothing(proxy, client):
    assert exchange(client) == b"hello"
    proxy.stall()
    passed = proxy.passed("to_server")
    client.sendall(b"held")
    with connect(proxy) as later:
        later.sendall(b"too")
        assert is_silent(client) and is_silent(later)
        assert proxy.passed("to_server") == passed
        proxy.resume()
        assert receive(client, 4) == b"held"
        assert receive(later, 3) == b"too"


def test_half_open_connections_stay_so_and_neither_side_learns_of_it(proxy, echo, client):
    assert exchange(client) == b"hello"
    proxy.swallow()
    client.sendall(b"lost")
    with connect(proxy) as later:
        later.sendall(b"lost as well")
        assert is_silent(client) and is_silent(later)
    client.shutdown(socket.SHUT_RDWR)
    assert not echo.ended.acquire(timeout=0.1)
    proxy.restore()
    with connect(proxy) as restored:
        assert exchange(restored) == b"hello"
    assert echo.ended.acquire(timeout=PATIENCE), "the restored one has ended"
    assert not echo.ended.acquire(timeout=0.1), "the half-open one has not"
    proxy.cut()
    assert echo.ended.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("direction", ["to_server", "to_client"])
def test_cutting_after_so_many_bytes(proxy, client, direction):
    assert exchange(client) == b"hello"
    proxy.cut_after(7, direction)
    assert exchange(client) == b"hello"
    client.sendall(b"world")
    received = b""
    try:
        while part := client.recv(10):
            received += part
    except ConnectionResetError:
        assert direction == "to_server"
    assert proxy.passed(direction) == 12
    assert received == (b"wo" if direction == "to_client" else received)
    with connect(proxy) as later:
        assert exchange(later, b"longer than seven") == b"longer than seven"


def test_a_server_that_is_not_there_is_a_reset(proxy, echo):
    echo.close()
    with pytest.raises(ConnectionResetError):
        with connect(proxy) as connection:
            connection.recv(1)


def test_urls_lead_through_it(proxy):
    assert proxy.url("postgresql://me:pa%40ss@db:5432/a?x=1") == f"postgresql://me:pa%40ss@127.0.0.1:{proxy.port}/a?x=1"
    assert proxy.url("redis://db:6379/0") == f"redis://127.0.0.1:{proxy.port}/0"
    with closing(Proxy.before(f"redis://127.0.0.1:{proxy.port}/0")) as second, connect(second) as connection:
        assert exchange(connection) == b"hello"


def test_controls_may_come_from_many_threads(proxy):
    stop = threading.Event()

    def disturb(control, undo):
        while not stop.is_set():
            control()
            undo()

    pairs = [(proxy.stall, proxy.resume), (proxy.refuse, proxy.accept), (proxy.cut, lambda: proxy.delay(0))]
    threads = [threading.Thread(target=disturb, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            with suppress(ConnectionError), connect(proxy) as connection:
                exchange(connection)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    with connect(proxy) as connection:
        assert exchange(connection) == b"hello"
