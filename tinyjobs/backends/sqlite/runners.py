"""Who runs a verb on which SQLite connection.

On one of the calling thread, on the store's own thread (for event loops), or on the one shared connection of a store
in memory. Knows nothing of statements, nor of how a connection works.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from tinyjobs.backends.sql.connection import Connection, Verb
from tinyjobs.backends.sqlite.connection import SqliteConnection
from tinyjobs.core.errors import StoreBusyError, StoreUnavailableError
from tinyjobs.core.inline import finish


class ThreadConnections:
    """A runner on a connection of the calling thread, opened at its first use. Its verbs never suspend.

    A forked child opens connections of its own. There is no lock, which a signal handler might meet on its own thread:
    all is changed by single calls of built-in types.
    """

    def __init__(self, open_connection: Callable[[], SqliteConnection]) -> None:
        self._open = open_connection
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._local = threading.local()
        self._all: set[weakref.ref[SqliteConnection]] = set()
        self._process = os.getpid()

    def connection(self) -> SqliteConnection:
        """This thread's connection."""
        if self._process != os.getpid():
            self._begin()
        connection: SqliteConnection | None = getattr(self._local, "connection", None)
        if self._closed or connection is None:
            connection = self._opened()
        return connection

    def _opened(self) -> SqliteConnection:
        connection = None if self._closed else self._open()
        if connection is not None:
            self._all.add(weakref.ref(connection, self._all.discard))
        # Looked at after it was noted: whichever of this and a close comes last finds the other.
        if self._closed or connection is None:
            raise StoreUnavailableError("The store was closed.")
        self._local.connection = connection
        return connection

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb here and now."""
        return await self.connection().perform(verb)

    async def close(self) -> None:
        """Close every thread's connection."""
        self._closed = True
        for ref in list(self._all):
            if (connection := ref()) is not None:
                connection.close()


class OneConnection:
    """A runner on one shared connection, a caller at a time: the store in memory. Its verbs never suspend."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb while nobody else uses the connection."""
        return await self._connection.perform(verb)

    def run_now[T](self, verb: Verb[T]) -> T:
        """Run the verb here and now."""
        return finish(self._connection.perform(verb))

    async def close(self) -> None:
        """Close it, and with it the store."""
        self._connection.close()


class StoreThread:
    """A runner for event loops: verbs run one after another on a thread of the store's own.

    The loop only waits for a future, so a verb that waits for the file's lock holds up nobody else. One connection
    means one writer in this process, which is what SQLite wants anyway. A forked child starts a thread of its own.
    """

    def __init__(self, open_connection: Callable[[], SqliteConnection], name: str) -> None:
        self._open = open_connection
        self._name = name
        self._closed = False
        self._connection: SqliteConnection | None = None
        self._begin()

    def _begin(self) -> None:
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb on the store's thread. A cancelled call that has not begun is dropped; one begun goes on."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._submit(_Call(verb, loop, future))
        return await future

    def run_now[T](self, verb: Verb[T]) -> T:
        """Run the verb in the calling thread, on the store's own connection.

        Raises `StoreBusyError` at once, with nothing done, where that would mean to wait: for the connection, or for
        the file's lock.
        """
        connection = self._connection
        if connection is None or self._process != os.getpid() or not self._turn.acquire(blocking=False):
            raise StoreBusyError("The store's connection is in use.")
        try:
            with connection.without_waiting():
                return finish(connection.perform(verb))
        finally:
            self._turn.release()

    async def close(self) -> None:
        """Let the thread finish what it was given, close its connection and end."""
        loop = asyncio.get_running_loop()
        end = _Call(None, loop, loop.create_future())
        with self._lock:
            was_closed, self._closed = self._closed, True
            thread = self._thread
            self._calls.put(end)
        # Closed before, it serves no more calls, and nobody would answer.
        if was_closed or self._process != os.getpid() or thread is threading.current_thread():
            return
        if thread is None:
            if self._connection is not None:
                self._connection.close()
            return
        await end.future
        # It has nothing left to do. At the end of the process no executor would take a wait for it.
        thread.join()

    def _submit(self, call: "_Call") -> None:
        if self._process != os.getpid():
            self._connection = None
            self._begin()
        # Under the lock, or a call could be put behind the end and never be answered.
        with self._lock:
            if self._closed:
                raise StoreUnavailableError("The store was closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, args=(self._calls,), name=self._name, daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:
                    # At the end of the interpreter no thread begins any more. There the loop does wait.
                    self._thread = None
                    self._perform(call)
                    return
            self._calls.put(call)

    def _serve(self, calls: "SimpleQueue[_Call]") -> None:
        while (call := calls.get()).verb is not None:
            if not call.future.cancelled():
                self._perform(call)
        if self._connection is not None:
            self._connection.close()
        call.answer()

    def _perform(self, call: "_Call") -> None:
        assert call.verb is not None
        try:
            connection = self._connection = self._connection or self._open()
            connection.gives_way = True
            with self._turn:
                value = finish(connection.perform(call.verb))
        except BaseException as error:
            # Whatever it was belongs to the caller.
            call.answer(error=error)
        else:
            call.answer(value)


@dataclass(slots=True)
class _Call:
    """`verb` None: the end."""

    verb: Callable[[Connection], Any] | None
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"

    def answer(self, value: Any = None, error: BaseException | None = None) -> None:
        try:
            self.loop.call_soon_threadsafe(self._settle, value, error)
        except RuntimeError:
            # The caller's loop is gone; nobody is left to hear it.
            return

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.future.cancelled():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)
