"""A TCP proxy on loopback that a test holds in its hand: slow, silent, deaf or gone, from one moment to the next.

It runs on an event loop in a thread of its own. Each control may be called from any thread and is in force when it
returns: nothing that it forbids happens afterwards.
"""

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from tests.servers.processes import PATIENCE, free_port

type Direction = Literal["to_server", "to_client"]
DIRECTIONS: tuple[Direction, Direction] = ("to_server", "to_client")
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """Stands between clients and the server at `host` and `port`. Clients connect to `Proxy.port`, or by `url`."""

    def __init__(self, host: str, port: int) -> None:
        self.port = free_port()
        self._target = (host, port)
        self._rules = _Rules()
        self._links: set[_Link] = set()
        self._accepted = 0
        self._listener: socket.socket | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._failures: list[dict[str, Any]] = []
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: self._failures.append(context))
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.accept()

    @classmethod
    def before(cls, url: str) -> Self:
        """A proxy before the server that a URL names."""
        return cls(*_host_and_port(url))

    def url(self, url: str) -> str:
        """The same URL, by way of this proxy."""
        parts = urlsplit(url)
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        return urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{self.port}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def delay(self, seconds: float, direction: Direction | None = None) -> None:
        """From now on what is sent arrives this much later: in one direction, or in each."""
        self._call(lambda: self._rules.delays.update(dict.fromkeys([direction] if direction else DIRECTIONS, seconds)))

    def cut(self) -> int:
        """Reset every connection there is, and return how many there were. New ones are accepted."""
        return self._call(lambda: sum(link.cut() for link in list(self._links)))

    def refuse(self) -> None:
        """Refuse new connections until `accept`. Those there are go on."""
        self._call(self._stop_listening)

    def accept(self) -> None:
        """Accept new connections: the state in which a proxy begins."""
        self._call(self._listen)

    def stall(self) -> None:
        """Hold everything until `resume`: connections are accepted and kept, but nothing is forwarded. None is lost."""
        self._call(lambda: self._set_flowing(False))

    def resume(self) -> None:
        """Forward again, beginning with what was held."""
        self._call(lambda: self._set_flowing(True))

    def swallow(self) -> None:
        """Make every connection half-open, for good, and every new one until `restore`.

        Whatever is sent is taken and lost, nothing comes back, and neither side learns that the other has gone.
        """
        self._call(lambda: self._set_swallowing(True))

    def restore(self) -> None:
        """Serve new connections again after `swallow`."""
        self._call(lambda: self._set_swallowing(False))

    def cut_after(self, count: int, direction: Direction) -> None:
        """Let that many more bytes pass in this direction, all connections together; then cut the one they end in.

        It happens once. The receiver gets all of the bytes before it sees the end.
        """
        assert count > 0
        self._call(lambda: self._rules.allowances.update({direction: count}))

    def passed(self, direction: Direction) -> int:
        """How many bytes have been handed on in this direction so far."""
        return self._call(lambda: self._rules.passed[direction])

    @property
    def connections(self) -> int:
        """How many there are now, half-open ones included."""
        return self._call(lambda: len(self._links))

    @property
    def accepted(self) -> int:
        """How many there have ever been."""
        return self._call(lambda: self._accepted)

    def point_at(self, url: str) -> None:
        """Serve new connections from the server of this URL. Those there are stay with the one they have."""
        target = _host_and_port(url)
        self._call(lambda: setattr(self, "_target", target))

    def close(self) -> None:
        """Cut everything and end. Raises what went wrong inside, if anything did."""
        if self._loop.is_closed():
            return
        self.refuse()
        self.cut()
        asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
        assert not self._failures, self._failures

    # --- on the loop ---

    # Not `loop.create_server`: one that is closed just after it has accepted a connection leaves that one hanging.
    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
            self._listener.setblocking(False)
            self._loop.add_reader(self._listener, self._accept_one)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept_one(self) -> None:
        if self._listener is None:
            return
        try:
            accepted, _ = self._listener.accept()
        except OSError:  # it went away again
            return
        self._accepted += 1
        link = _Link(self._rules, self._links.discard)
        self._links.add(link)
        connecting = self._loop.create_task(link.connect(accepted, self._target))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _settle(self) -> None:
        """Let everything end that the cuts have doomed."""
        await asyncio.gather(*self._connecting)
        await asyncio.sleep(0)

    def _set_flowing(self, flows: bool) -> None:
        self._rules.flows = flows
        for link in list(self._links):
            link.forward()

    def _set_swallowing(self, swallows: bool) -> None:
        self._rules.swallows = swallows
        if swallows:
            for link in self._links:
                link.is_dead = True

    def _call[Answer](self, function: Callable[[], Answer]) -> Answer:
        answer: Future[Answer] = Future()

        def run() -> None:
            try:
                answer.set_result(function())
            except BaseException as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return answer.result(PATIENCE)


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None, "the URL has to name host and port"
    return parts.hostname, parts.port


class _Rules:
    """What holds for all connections at this moment. Read and changed on the loop alone."""

    def __init__(self) -> None:
        self.delays: dict[Direction, float] = {"to_server": 0.0, "to_client": 0.0}
        self.allowances: dict[Direction, int] = {}
        self.passed: dict[Direction, int] = {"to_server": 0, "to_client": 0}
        self.flows = True
        self.swallows = False


class _Link:
    """A client's connection and the one made for it to the server."""

    def __init__(self, rules: _Rules, forget: Callable[["_Link"], None]) -> None:
        self.rules = rules
        self.is_dead = rules.swallows
        self.is_cut = False
        self._forget = forget
        self.client = _Side(self, "to_server")
        self.server = _Side(self, "to_client")
        self.client.peer, self.server.peer = self.server, self.client

    async def connect(self, accepted: socket.socket, target: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: self.client, accepted)
            if not (self.is_dead or self.is_cut):
                await loop.create_connection(lambda: self.server, *target)
        except OSError:
            self.cut()

    def forward(self) -> None:
        self.client.forward()
        self.server.forward()

    def cut(self) -> bool:
        """Reset both sides. False: they had gone before."""
        self.is_cut = True
        cut = [side.reset() for side in (self.client, self.server)]
        self._forget(self)
        return any(cut)

    def side_ended(self) -> None:
        if self.client.is_gone and self.server.is_gone:
            self._forget(self)


class _Side(asyncio.Protocol):
    """One of a link's two sockets. What it reads is held until it is due, then goes to its peer."""

    peer: "_Side"

    def __init__(self, link: _Link, direction: Direction) -> None:
        self._link = link
        self._rules = link.rules
        self._direction = direction
        self._held: deque[tuple[float, bytes]] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._has_ended = False
        self.transport: asyncio.Transport | None = None

    @property
    def is_gone(self) -> bool:
        return self.transport is None or self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._link.is_cut:
            self.reset()
        self.peer.forward()

    def data_received(self, data: bytes) -> None:
        if not self._link.is_dead:
            self._hold(data)

    def eof_received(self) -> bool:
        if not self._link.is_dead:
            self._hold(b"")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self._link.is_dead:
            self._link.cut()
        self._link.side_ended()

    def pause_writing(self) -> None:
        if self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer.transport is not None and not self.peer.is_gone:
            self.peer.transport.resume_reading()

    def reset(self) -> bool:
        self._held.clear()
        if self.is_gone:
            return False
        assert self.transport is not None
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.transport.abort()
        return True

    def forward(self) -> None:
        """Hand on what is due, as far as the rules allow."""
        loop = asyncio.get_running_loop()
        while self._held and self._rules.flows and not self._link.is_dead and not self.peer.is_gone:
            due, data = self._held[0]
            if due > loop.time():
                if self._alarm is None:
                    self._alarm = loop.call_at(due, self._wake)
                return
            self._held.popleft()
            self._write(data)

    def _hold(self, data: bytes) -> None:
        due = asyncio.get_running_loop().time() + self._rules.delays[self._direction]
        self._held.append((max(due, self._held[-1][0]) if self._held else due, data))
        self.forward()

    def _wake(self) -> None:
        self._alarm = None
        self.forward()

    def _write(self, data: bytes) -> None:
        target = self.peer.transport
        assert target is not None
        if not data:
            self._end(target)
            return
        allowed = self._rules.allowances.get(self._direction)
        part = data if allowed is None else data[:allowed]
        target.write(part)
        self._rules.passed[self._direction] += len(part)
        if allowed is None:
            return
        if allowed > len(part):
            self._rules.allowances[self._direction] = allowed - len(part)
        else:
            del self._rules.allowances[self._direction]
            self._held.clear()
            target.close()  # which still hands over what was written
            self.reset()

    def _end(self, target: asyncio.Transport) -> None:
        self._has_ended = True
        if self.peer._has_ended:
            target.close()
            if self.transport is not None:
                self.transport.close()
        else:
            target.write_eof()
