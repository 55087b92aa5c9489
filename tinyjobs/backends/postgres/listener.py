"""A connection of its own that listens for notifications, on the event loop of whoever waits for jobs.

It has no task of its own: those who wait open it, and ask every now and then whether it still answers. In between the
event loop reads what arrives. It speaks to libpq directly, so nothing it does has to be cancelled at the server, and
closing it never waits. With `connection.py`, `errors.py` and the pools the only place that imports the driver.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import psycopg
from psycopg import pq

from tinyjobs.backends.postgres.errors import translate
from tinyjobs.backends.postgres.notifying import ANY, PROBE
from tinyjobs.backends.postgres.source import Source
from tinyjobs.backends.waiters import Waiter, Waiters
from tinyjobs.core.errors import StoreError, StoreUnavailableError

logger = logging.getLogger("tinyjobs.store")

# How often a connection that says nothing is asked whether it is still there, and how long it may take to answer.
_CHECK = 15.0
_PATIENCE = 5.0
# How long a notification of our own may take to arrive, and when that is tried again after it did not.
_ARRIVAL = 2.0
_DEAF = 60.0
_BAD = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)


class Listener:
    """Turns notifications into nudges of waiters. Belongs to the loop on which it is made.

    `channel` asks the store for the name of its channel, and `tell` has it send a notification with a topic, both by
    another connection.
    """

    def __init__(
        self,
        source: Source,
        waiters: Waiters,
        channel: Callable[[], Awaitable[str]],
        tell: Callable[[str], Awaitable[None]],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        #: Whether a notification of our own has come back since it was opened, and it has answered ever since.
        self.hears = False
        self._source = source
        self._waiters = waiters
        self._channel = channel
        self._tell = tell
        self._process = os.getpid()
        self._raw: psycopg.AsyncConnection[Any] | None = None
        self._descriptor = -1
        # At most one thing is under way: the opening, or a check.
        self._work: asyncio.Task[None] | None = None
        self._next_work = 0.0
        # What that waits for: the server's answer, or a notification with the topic `_probe`.
        self._awaited: asyncio.Future[None] | None = None
        self._probe = ""
        self._is_deaf = False
        self._failures = 0
        self._failure: StoreError | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it belongs to this process and to a loop that has not ended."""
        return self._process == os.getpid() and not self.loop.is_closed()

    async def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Wait until the waiter is told of a job; False: it was not, in that time.

        Raises `StoreError` to each waiter when the connection was lost or could not be opened, also between its waits,
        and at the end of a wait in which it was not there. Waiting opens it again.
        """
        ends = self.loop.time() + seconds
        if waiter.version < 0:
            waiter.version = self._failures
        while True:
            if waiter.is_nudged:
                waiter.is_nudged = False
                return True
            if waiter.version != self._failures:
                waiter.version = self._failures
                raise self._failure or StoreUnavailableError(f"{self._source.where}: wake-ups were interrupted.")
            left = ends - self.loop.time()
            if left <= 0:
                if self._failure is not None:
                    raise self._failure
                return False
            self._attend()
            # What is under way wakes everybody at its end.
            await waiter.wait(left if self._work else min(left, self._next_work - self.loop.time()))

    async def close(self) -> None:
        """Let go of the connection at once, whatever it is doing."""
        if self._process != os.getpid():
            return
        if self.loop.is_closed() or self.loop is asyncio.get_running_loop():
            self._end()
        else:
            self.loop.call_soon_threadsafe(self._end)

    # --- what keeps it open -------------------------------------------------------------------------------------

    def _attend(self) -> None:
        if self._work is None and self.loop.time() >= self._next_work:
            self._next_work = self.loop.time() + _CHECK
            self._work = self.loop.create_task(self._do(self._open if self._raw is None else self._check))

    async def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:
            self._lose(error)
        finally:
            self._work = None
            self._wake()

    async def _open(self) -> None:
        channel = await self._channel()
        keywords = self._source.connect_keywords()
        keywords["application_name"] = f"{keywords['application_name']} listener"
        raw = await psycopg.AsyncConnection.connect(**keywords, autocommit=True)
        self._raw, self._descriptor = raw, raw.pgconn.socket
        self.loop.add_reader(self._descriptor, self._read)
        for text in (*self._source.prelude, f'LISTEN "{channel}"'):
            await self._ask(raw, text)
        self._failure = None
        # Whatever was told before this moment went unheard.
        for waiter in self._waiters.on(self.loop):
            waiter.nudge()
        await self._try_out()

    async def _check(self) -> None:
        if self._raw is not None:
            await self._ask(self._raw, "SELECT 1")

    async def _try_out(self) -> None:
        """Have a notification sent to ourselves by another connection. If none comes, none of anybody's does."""
        self._probe = PROBE + secrets.token_hex(8)
        await self._tell(self._probe)
        if self._probe:
            try:
                await self._within(_ARRIVAL)
            except TimeoutError:
                self._give_up()
                return
        self.hears = self._raw is not None
        if self._is_deaf:
            self._is_deaf = False
            logger.info("%s: notifications arrive, and wake idle workers.", self._source.where)

    def _give_up(self) -> None:
        self._drop()
        self._next_work = self.loop.time() + _DEAF
        if not self._is_deaf:
            self._is_deaf = True
            logger.warning(
                "%s: notifications do not arrive, as behind a pooler in transaction mode, so an idle worker finds jobs "
                "by polling alone. Use session pooling, or a direct connection for workers.",
                self._source.where,
            )

    async def _ask(self, raw: "psycopg.AsyncConnection[Any]", text: str) -> None:
        raw.pgconn.send_query(text.encode())
        # So few bytes go out at once.
        raw.pgconn.flush()
        try:
            await self._within(_PATIENCE)
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"{self._source.where}: the connection that listens did not answer within {_PATIENCE:g} s."
            ) from error

    async def _within(self, seconds: float) -> None:
        """Wait for what the connection has to bring: the answer, or the notification that shows that they arrive."""
        self._awaited = self.loop.create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._awaited
        finally:
            self._awaited = None

    # --- what arrives -------------------------------------------------------------------------------------------

    def _read(self) -> None:
        if self._raw is None:
            return
        pgconn = self._raw.pgconn
        try:
            pgconn.consume_input()
            self._read_answer(pgconn)
            while (note := pgconn.notifies()) is not None:
                self._hear(note.extra.decode("ascii", "replace"))
            if pgconn.status != pq.ConnStatus.OK:
                raise psycopg.OperationalError(pgconn.get_error_message() or "the connection that listens was lost")
        except psycopg.Error as error:
            self._break(error)

    def _read_answer(self, pgconn: Any) -> None:
        while self._awaited is not None and not self._probe and not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                if not self._awaited.done():
                    self._awaited.set_result(None)
                return
            if result.status in _BAD:
                raise psycopg.OperationalError(result.get_error_message())

    def _hear(self, topic: str) -> None:
        if not topic.startswith(PROBE):
            self._waiters.nudge(() if topic == ANY else (topic,))
        elif topic == self._probe:
            self._probe = ""
            if self._awaited is not None and not self._awaited.done():
                self._awaited.set_result(None)

    # --- how it ends --------------------------------------------------------------------------------------------

    def _break(self, error: psycopg.Error) -> None:
        """The connection is of no use any more. What waits for it fails; if nothing does, those who wait for jobs."""
        self._drop()
        if self._awaited is None:
            self._lose(error)
        elif not self._awaited.done():
            self._awaited.set_exception(error)

    def _lose(self, error: BaseException) -> None:
        self._drop()
        told = translate(error, self._source.where)
        if not isinstance(told, StoreError):
            told = StoreUnavailableError(f"{self._source.where}: {told}")
        self._failures += 1
        self._failure = told
        self._next_work = 0.0
        self._wake()

    def _wake(self) -> None:
        """Have those who wait see what has changed; that is no job."""
        for waiter in self._waiters.on(self.loop):
            waiter.wake()

    def _drop(self) -> None:
        self.hears = False
        self._probe = ""
        raw, self._raw = self._raw, None
        if raw is None:
            return
        if not self.loop.is_closed():
            self.loop.remove_reader(self._descriptor)
        raw.pgconn.finish()

    def _end(self) -> None:
        if self._work is not None:
            self._work.cancel()
        self._drop()
