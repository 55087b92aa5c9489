"""A link for threads that call and wait: a connection out of a pool for the length of each call.

What is decided here is when a call gives up, that no answer is ever read by another call than its own, and that a
forked child never touches what it inherited.
"""

import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tinyjobs.backends.redis.driver import open_socket
from tinyjobs.backends.redis.errors import is_answer, is_no_script, is_of_replica, translate
from tinyjobs.backends.redis.link import Script, Word
from tinyjobs.backends.redis.replies import InvalidReply, ReplyError, new_replies, packed
from tinyjobs.backends.redis.shelf import Shelf
from tinyjobs.backends.redis.source import NAME, Source
from tinyjobs.backends.sockets import cut_off, watch

_PIECE = 1 << 16
#: What a forked child found. To let go of it might talk on the parent's connections.
inherited: list[object] = []


class _Wire:
    """One open connection."""

    __slots__ = ("_has_news", "_replies", "_timeout", "socket")

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self._timeout = opened.gettimeout()
        self._replies = new_replies()
        self._has_news = watch(opened.fileno())

    def is_alive(self) -> bool:
        """Whether the server has kept it, as far as can be seen without asking: it says nothing that is not asked."""
        return not self._has_news()

    def ask(self, command: bytes, within: float) -> Any:
        """Send a command and read the answer, waiting no longer than that for each piece of either."""
        if within != self._timeout:
            self.socket.settimeout(within)
            self._timeout = within
        try:
            sent = self.socket.send(command)
            while sent < len(command):
                sent += self.socket.send(memoryview(command)[sent:])
        except OSError as error:
            if not isinstance(error, TimeoutError) and (refusal := self._last_word()) is not None:
                raise refusal from error
            raise
        while True:
            data = self.socket.recv(_PIECE)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            if replies := self._replies.feed(data):
                break
        reply = replies[0]
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def _last_word(self) -> ReplyError | None:
        """Why the server hung up on a command before it was sent whole, as on one too large for it, if it said so."""
        with suppress(OSError, InvalidReply):
            self.socket.setblocking(False)
            for reply in self._replies.feed(self.socket.recv(_PIECE)):
                if isinstance(reply, ReplyError):
                    return reply
        return None

    def close(self) -> None:
        with suppress(OSError):
            self.socket.close()


class _Hold:
    """What one call has of the pool, and its place in the queue while it waits. Changed under the pool's lock.

    So an interrupt, wherever it comes, leaves nothing held that nobody knows of. `is_held`: it has a connection, or
    with no `wire` the leave to open one. `is_late`: it was cut off, since its answer had not come at a deadline.
    """

    __slots__ = ("gate", "has_left", "is_held", "is_late", "wire")

    def __init__(self) -> None:
        self.wire: _Wire | None = None
        self.is_held = self.is_late = self.has_left = False
        self.gate: threading.Lock | None = None

    def serve(self, wire: _Wire | None) -> bool:
        if self.has_left:
            return False
        self.wire, self.is_held = wire, True
        self._open_gate()
        return True

    def leave(self) -> None:
        """Wait no longer."""
        if not self.is_held and not self.has_left:
            self.has_left = True
            self._open_gate()

    def _open_gate(self) -> None:
        if self.gate is not None:
            self.gate.release()


class ThreadLink:
    """See `Link`. Its coroutines never suspend."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._shelf: Shelf[_Wire, _Hold] = Shelf(self._source.options.max_connections)
        self._in_use: set[_Hold] = set()
        self._alarm: threading.Timer | None = None
        # Last, since another thread of a forked child that sees it takes what it finds.
        self._process = os.getpid()

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Word]) -> Any:
        """See `Link.run`."""
        return self._call(("EVALSHA", script.sha, len(keys), *keys, *arguments), script)

    async def command(self, *words: Word) -> Any:
        """See `Link.command`."""
        return self._call(words, None)

    def hurry(self) -> None:
        """Bring the source's deadline home to the calls under way."""
        with self._lock:
            alarm, self._alarm = self._alarm, None
            if alarm is not None:
                alarm.cancel()
            left = self._source.left()
            if left is not None and self._in_use:
                self._alarm = threading.Timer(left, self._cut_off)
                self._alarm.daemon = True
                self._alarm.start()

    async def close(self) -> None:
        """Let go of every connection. One in use goes when its call has ended."""
        self._closed = True
        if self._process != os.getpid():
            return
        with self._lock:
            if self._alarm is not None:
                self._alarm.cancel()
            idle = self._shelf.end()
        for wire in idle:
            wire.close()

    def _call(self, words: Sequence[Word], script: Script | None) -> Any:
        source, hold = self._source, _Hold()
        try:
            command = packed(words)
            wire = self._take(hold)
            answer = self._ask(wire, command, source.within(source.options.socket_timeout), words, script)
            self._put(hold)
        except BaseException as error:
            self._ended(hold, error)
            is_late = isinstance(error, TimeoutError) or (hold.is_late and not is_answer(error))
            told = source.late() if is_late and isinstance(error, Exception) else translate(error, source.where)
            if told is error:
                raise
            raise told from error
        return answer

    def _ask(self, wire: _Wire, command: bytes, within: float, words: Sequence[Word], script: Script | None) -> Any:
        try:
            return wire.ask(command, within)
        except ReplyError as error:
            if script is None or not is_no_script(error):
                raise
        # With its text, so that nothing can come in between.
        return wire.ask(packed(("EVAL", script.text, *words[2:])), within)

    # --- connections ----------------------------------------------------------------------------------------------

    def _take(self, hold: _Hold) -> _Wire:
        """A connection, held by nobody else."""
        if self._process != os.getpid():
            inherited.append((self._shelf, self._in_use, self._lock, self._alarm))
            self._begin()
        while True:
            self._get(hold)
            if hold.wire is None:
                hold.wire = _Wire(open_socket(self._source, NAME))
            elif not hold.wire.is_alive():
                self._let_go(hold)
                continue
            return hold.wire

    def _get(self, hold: _Hold) -> None:
        """Let the call hold an open connection, or the leave to open one; wait until there is either."""
        source, shelf = self._source, self._shelf
        oldest = source.clock.monotonic() - source.options.health_check_interval
        with self._lock:
            if self._closed:
                raise source.closed()
            old = shelf.older_than(oldest)
            hold.wire = shelf.take()
            hold.is_held = hold.wire is not None or shelf.may_open()
            self._in_use.add(hold)
            if not hold.is_held:
                hold.gate = threading.Lock()
                hold.gate.acquire()
                shelf.waiting.append(hold)
        for wire in old:
            wire.close()
        if hold.gate is not None and not hold.is_held:
            self._wait(hold, hold.gate)

    def _wait(self, hold: _Hold, gate: threading.Lock) -> None:
        source = self._source
        gate.acquire(timeout=source.within(source.options.pool_timeout))
        with self._lock:
            hold.leave()
            in_use = sum(each.wire is not None for each in self._in_use)
        if self._closed:
            raise source.closed()
        if hold.has_left:
            raise source.none_free(in_use)

    def _put(self, hold: _Hold) -> None:
        now = self._source.clock.monotonic()
        with self._lock:
            if hold.wire is not None and not self._closed:
                self._in_use.discard(hold)
                hold.is_held = False
                self._shelf.put(hold.wire, now)
                return
        self._let_go(hold)

    def _ended(self, hold: _Hold, error: BaseException) -> None:
        """After a call that failed: the connection goes on if the answer was read to its end."""
        if not is_answer(error):
            self._let_go(hold)
        elif not is_of_replica(error):
            self._put(hold)
        else:
            self._let_go(hold)
            # The name may lead to another server by now.
            with self._lock:
                idle = self._shelf.empty()
            for other in idle:
                other.close()

    def _let_go(self, hold: _Hold) -> None:
        """Have the call hold nothing any more, nor wait."""
        with self._lock:
            self._in_use.discard(hold)
            hold.leave()
            if hold.is_held:
                hold.is_held = False
                wire, hold.wire = hold.wire, None
                if wire is not None:
                    wire.close()
                self._shelf.lost()

    def _cut_off(self) -> None:
        """The deadline has come: end what is waited for."""
        with self._lock:
            for hold in self._in_use:
                if hold.wire is not None:
                    hold.is_late = True
                    cut_off(hold.wire.socket.fileno())
                elif not hold.is_held:
                    hold.leave()
