"""Writing to a stream that somebody may have stopped reading, without ever waiting for that somebody.

A worker must not stand still because the pipe of its log is full. What cannot be written at once is kept, up to a
bound, and written by a thread as soon as there is room; beyond the bound lines are dropped, and counted, and the count
is written in their place. A stream that is gone takes everything and shows nothing.
"""

import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from tinyjobs.app.forking import renew_in_children
from tinyjobs.cli.console import Console

#: For so many seconds the end of a command waits for who reads what it has written.
PATIENCE = 1.0
#: How many bytes wait at most.
BACKLOG = 256 * 1024
# What a pipe takes as a whole or not at all, on every system.
_PIECE = 512 if not hasattr(select, "PIPE_BUF") else select.PIPE_BUF
# How often a thread that waits for room looks whether it is still wanted, in milliseconds.
_GLANCE = 500


class LineSink:
    """Lines for one descriptor. Safe to share between threads."""

    def __init__(self, stream: TextIO) -> None:
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._descriptor = stream.fileno()
        self._twin = _twin(self._descriptor)
        self._lock = threading.RLock()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        self._thread: threading.Thread | None = None
        renew_in_children(self, LineSink._begin_anew)

    def _begin_anew(self) -> None:
        # A forked child: what waits is the parent's to write, and so is its thread.
        self._lock = threading.RLock()
        self._waiting, self._size, self._dropped, self._thread = deque(), 0, 0, None

    def write(self, text: str) -> None:
        """Write a line, at once or later. Never raises and never waits."""
        data = (text + "\n").encode(self._encoding, "backslashreplace")
        with self._lock:
            self._drain()
            rest = data if self._waiting else self._written(data)
            if not rest:
                return
            if self._size + len(rest) > BACKLOG and rest is data:
                self._dropped += 1
                return
            self._waiting.append(rest)
            self._size += len(rest)
            self._begin_thread()

    def close(self, patience: float) -> None:
        """Wait for what is not written yet, so many seconds at most, and give it up then."""
        thread = self._thread
        if thread is not None:
            thread.join(patience)
        with self._lock:
            self._waiting.clear()
            self._size = 0
            if self._twin is not None:
                os.close(self._twin)
                self._twin = None

    def _drain(self) -> None:
        """Write of what waits as much as there is room for."""
        while self._waiting:
            data = self._waiting.popleft()
            rest = self._written(data)
            self._size -= len(data) - len(rest)
            if rest:
                self._waiting.appendleft(rest)
                return
        if self._dropped:
            lines = "1 line was" if self._dropped == 1 else f"{self._dropped} lines were"
            self._dropped = 0
            rest = self._written(f"... {lines} dropped here, since nobody read them ...\n".encode())
            if rest:
                self._waiting.append(rest)
                self._size += len(rest)

    def _written(self, data: bytes) -> bytes:
        """Write what there is room for; the rest. Of a stream that is gone or full for good there is no rest."""
        while data:
            try:
                if self._twin is None and not _has_room(self._descriptor, 0):
                    return data
                data = data[os.write(self._descriptor if self._twin is None else self._twin, data[:_PIECE]) :]
            except BlockingIOError:
                return data
            except OSError:
                return b""
        return b""

    def _begin_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._wait_for_room, name="tinyjobs-output", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return  # at the end of the interpreter; the next line tries to write what waits
            self._thread = thread

    def _wait_for_room(self) -> None:
        while True:
            _has_room(self._descriptor, _GLANCE)
            with self._lock:
                self._drain()
                if not self._waiting:
                    self._thread = None
                    return


def sink_on(stream: TextIO | None) -> LineSink | None:
    """A sink on that stream, or None where there is no descriptor behind it, or no way to ask whether it has room."""
    if stream is None or not hasattr(select, "poll"):
        return None
    try:
        return LineSink(stream)
    except (OSError, ValueError, AttributeError):
        return None


@contextmanager
def never_waiting(console: Console) -> Generator[Console]:
    """The same console for a command that runs for long: no reader can hold it up."""
    sinks = [sink_on(stream) for stream in console.streams]
    try:
        yield console.writing_to(*(None if sink is None else sink.write for sink in sinks))
    finally:
        for sink in sinks:
            if sink is not None:
                sink.close(PATIENCE)


def _has_room(descriptor: int, milliseconds: int) -> bool:
    """Whether a write would not wait, or would fail at once; waits so long for that."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    try:
        return bool(poll.poll(milliseconds))
    except OSError:
        return True


def _twin(descriptor: int) -> int | None:
    """The same pipe or terminal opened once more, as one that does not wait.

    To have the descriptor itself not wait would change it for every process that shares it. A pipe that has room for
    some bytes may have none by the time of the write, when several processes write to it.
    """
    mode = os.fstat(descriptor).st_mode
    if not sys.platform.startswith("linux") or not (stat.S_ISFIFO(mode) or os.isatty(descriptor)):
        return None
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
