"""A link whose connections belong to one event loop: a connection out of a pool for the length of each call.

As `threadlink`, for an asyncio loop: the one on which it is first used. A call that is cancelled takes its connection
with it, so that nobody ever reads the answer of another's.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tinyjobs.backends.redis.driver import open_stream
from tinyjobs.backends.redis.errors import is_answer, is_no_script, is_of_replica, translate
from tinyjobs.backends.redis.link import Script, Word
from tinyjobs.backends.redis.replies import ReplyError, new_replies, packed
from tinyjobs.backends.redis.shelf import Shelf
from tinyjobs.backends.redis.source import NAME, Source
from tinyjobs.backends.redis.threadlink import inherited
from tinyjobs.backends.sockets import is_readable

# How long a close waits for the calls under way.
_CLOSING = 0.5


class _Wire(asyncio.Protocol):
    """One open connection. `is_late`: it was cut off, since its answer did not come in time."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.alarm: asyncio.TimerHandle | None = None
        self.is_late = False
        # When a part of an answer came last, and how much of the command had to wait when that was last looked at.
        self._arrived_at = 0.0
        self._unsent = 0
        # Kept since its transport is closed with it.
        self._writer = writer
        self._transport: asyncio.WriteTransport = writer.transport
        self._socket = writer.get_extra_info("socket")
        self._replies = new_replies()
        self._answer: asyncio.Future[Any] | None = None
        self._is_lost = False
        self._transport.set_protocol(self)

    def is_alive(self) -> bool:
        """Whether the server has kept it, as far as can be seen without asking: it says nothing that is not asked."""
        if self._is_lost or self._transport.is_closing():
            return False
        # What has arrived, and the loop has not read yet.
        return not is_readable(self._socket.fileno())

    async def ask(self, command: bytes, loop: asyncio.AbstractEventLoop) -> Any:
        """Send a command and read the answer."""
        if self._is_lost:
            raise ConnectionResetError("the server closed the connection")
        self._answer = answer = loop.create_future()
        self._transport.write(command)
        self._unsent = self._transport.get_write_buffer_size()
        return await answer

    def moved_until(self, now: float, patience: float) -> float:
        """Until when it may go on since something has moved: a part of the answer came, or more of the command went."""
        before, self._unsent = self._unsent, self._transport.get_write_buffer_size()
        return now + patience if self._unsent < before else self._arrived_at + patience

    def cut_off(self) -> None:
        """End it under its call: the answer did not come in time."""
        self.is_late = True
        self.close()

    def close(self) -> None:
        """Let go of it, without a word and without waiting."""
        self._transport.abort()

    # --- what arrives ---------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        try:
            replies = self._replies.feed(data)
        except Exception as error:
            self._lose(error)
            return
        if not replies:
            self._arrived_at = asyncio.get_running_loop().time()
            return
        if answer is None or answer.done() or len(replies) > 1:
            # Nobody has asked for that.
            self._lose(ConnectionResetError("the server sent an answer that nobody had asked for"))
            return
        self._answer = None
        reply = replies[0]
        if isinstance(reply, ReplyError):
            answer.set_exception(reply)
        else:
            answer.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(exc or ConnectionResetError("the server closed the connection"))

    def _lose(self, error: Exception) -> None:
        self._is_lost = True
        self._transport.abort()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)


class _Ticket:
    """A call that waits for a connection."""

    def __init__(self, future: "asyncio.Future[_Wire | None]") -> None:
        self.future = future

    def serve(self, wire: _Wire | None) -> bool:
        if self.future.done():
            return False
        self.future.set_result(wire)
        return True


class LoopLink:
    """See `Link`. All calls come from one event loop."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._shelf: Shelf[_Wire, _Ticket] = Shelf(self._source.options.max_connections)
        self._in_use: set[_Wire] = set()
        # Calls that wait for a connection, or for one to be opened.
        self._waiting: set[asyncio.Timeout] = set()
        self._idle: asyncio.Future[None] | None = None

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Word]) -> Any:
        """See `Link.run`."""
        return await self._call(("EVALSHA", script.sha, len(keys), *keys, *arguments), script)

    async def command(self, *words: Word) -> Any:
        """See `Link.command`."""
        return await self._call(words, None)

    def hurry(self) -> None:
        """Bring the source's deadline home to the calls under way. On the link's own loop."""
        left = self._source.left()
        if left is None or self._loop is None:
            return
        ends = self._loop.time() + left
        for waiting in self._waiting:
            if not waiting.expired():
                waiting.reschedule(min(ends, waiting.when() or ends))
        for wire in self._in_use:
            if wire.alarm is not None and wire.alarm.when() > ends:
                wire.alarm.cancel()
                wire.alarm = self._loop.call_at(ends, wire.cut_off)

    async def close(self) -> None:
        """Let go of every connection, those in use after a moment for their calls to end."""
        self._closed = True
        if self._process != os.getpid() or self._loop is None or self._loop.is_closed():
            return
        if self._loop is not asyncio.get_running_loop():
            self._loop.call_soon_threadsafe(self._end)
            return
        self._end()
        if self._in_use:
            self._idle = self._loop.create_future()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING):
                    await self._idle
            for wire in self._in_use:
                wire.close()

    def _end(self) -> None:
        """Let go of what is idle, and end what is waited for but the answers."""
        assert self._loop is not None
        for waiting in self._waiting:
            if not waiting.expired():
                waiting.reschedule(self._loop.time())
        for wire in self._shelf.end():
            wire.close()

    async def _call(self, words: Sequence[Word], script: Script | None) -> Any:
        source = self._source
        loop = asyncio.get_running_loop()
        try:
            command = packed(words)
            wire = await self._take(loop)
            try:
                patience = source.within(source.options.socket_timeout)
                wire.alarm = loop.call_later(patience, self._overdue, wire, patience)
                answer = await self._ask(wire, command, loop, words, script)
            except BaseException as error:
                self._ended(wire, error)
                if isinstance(error, OSError):
                    raise self._lost(wire, error) from error
                raise
        except Exception as error:
            told = translate(error, source.where)
            if told is error:
                raise
            raise told from error
        self._release(wire)
        self._give_back(wire)
        return answer

    async def _ask(
        self, wire: _Wire, command: bytes, loop: asyncio.AbstractEventLoop, words: Sequence[Word], script: Script | None
    ) -> Any:
        try:
            return await wire.ask(command, loop)
        except ReplyError as error:
            if script is None or not is_no_script(error):
                raise
        # With its text, so that nothing can come in between.
        return await wire.ask(packed(("EVAL", script.text, *words[2:])), loop)

    def _overdue(self, wire: _Wire, patience: float) -> None:
        """End the call of that connection, unless its command or its answer still moves and nobody is in a hurry."""
        assert self._loop is not None
        now = self._loop.time()
        until = now if self._source.deadline is not None else wire.moved_until(now, patience)
        if until > now:
            wire.alarm = self._loop.call_at(until, self._overdue, wire, patience)
        else:
            wire.cut_off()

    def _lost(self, wire: _Wire, error: OSError) -> BaseException:
        if wire.is_late:
            return self._source.late()
        return self._source.closed() if self._closed else translate(error, self._source.where)

    # --- connections ----------------------------------------------------------------------------------------------

    async def _take(self, loop: asyncio.AbstractEventLoop) -> _Wire:
        """A connection, held by nobody else."""
        if loop is not self._loop or self._process != os.getpid():
            self._bind(loop)
        while True:
            wire = await self._get()
            if wire is None:
                wire = await self._open()
            elif not wire.is_alive():
                self._shelf.lost()
                wire.close()
                continue
            self._in_use.add(wire)
            return wire

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._process != os.getpid() or (self._loop is not None and self._loop.is_closed()):
            inherited.append((self._shelf, self._in_use))
            self._begin()
        elif self._loop is not None:
            raise RuntimeError(f"{self._source.where}: this link belongs to another event loop.")
        self._loop = loop

    async def _get(self) -> _Wire | None:
        """One that is open; None: the leave to open one. Waits until there is either."""
        source, shelf = self._source, self._shelf
        if self._closed:
            raise source.closed()
        if shelf.idle:
            for wire in shelf.older_than(source.clock.monotonic() - source.options.health_check_interval):
                wire.close()
        found = shelf.take()
        if found is not None:
            return found
        if shelf.may_open():
            return None
        return await self._wait()

    async def _wait(self) -> _Wire | None:
        source = self._source
        future: asyncio.Future[_Wire | None] = asyncio.get_running_loop().create_future()
        self._shelf.waiting.append(_Ticket(future))
        waiting = asyncio.timeout(source.within(source.options.pool_timeout))
        self._waiting.add(waiting)
        try:
            async with waiting:
                served = await future
        except BaseException as error:
            if future.done() and not future.cancelled():
                # It was served in the very moment in which it gave up.
                self._give_back(future.result())
            if isinstance(error, TimeoutError):
                raise (source.closed() if self._closed else source.none_free(len(self._in_use))) from error
            raise
        finally:
            self._waiting.discard(waiting)
        if self._closed:
            self._give_back(served)
            raise source.closed()
        return served

    async def _open(self) -> _Wire:
        source = self._source
        connecting = asyncio.timeout(None)
        self._waiting.add(connecting)
        try:
            async with connecting:
                wire = _Wire(await open_stream(source, NAME))
            if self._closed:
                wire.close()
                raise source.closed()
            return wire
        except BaseException as error:
            self._shelf.lost()
            if isinstance(error, TimeoutError):
                raise (source.closed() if self._closed else source.unopened()) from error
            raise
        finally:
            self._waiting.discard(connecting)

    def _give_back(self, wire: _Wire | None) -> None:
        if wire is None:
            self._shelf.lost()
        elif self._closed:
            wire.close()
        else:
            self._shelf.put(wire, self._source.clock.monotonic())

    def _ended(self, wire: _Wire, error: BaseException) -> None:
        """After a call that failed: the connection goes on if the answer was read to its end."""
        is_whole = is_answer(error)
        self._release(wire)
        if is_whole and not is_of_replica(error):
            self._give_back(wire)
            return
        self._shelf.lost()
        wire.close()
        if is_whole:
            # The name may lead to another server by now.
            for other in self._shelf.empty():
                other.close()

    def _release(self, wire: _Wire) -> None:
        self._in_use.discard(wire)
        if wire.alarm is not None:
            wire.alarm.cancel()
            wire.alarm = None
        if self._idle is not None and not self._in_use and not self._idle.done():
            self._idle.set_result(None)
