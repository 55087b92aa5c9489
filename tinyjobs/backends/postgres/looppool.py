"""A runner on a pool of connections that belong to one event loop.

What is decided here is when a call gives up, how soon a server that is back is found, and that a forked child never
touches what it inherited.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from tinyjobs.backends.postgres.connection import PostgresConnection
from tinyjobs.backends.postgres.errors import is_outdated, translate
from tinyjobs.backends.postgres.liveness import cut_off, is_open
from tinyjobs.backends.postgres.pool import CLOSING, IDLE, LIFETIME, NAME, RECONNECT, Retrying, inherited
from tinyjobs.backends.postgres.source import Source
from tinyjobs.backends.sql.connection import Verb
from tinyjobs.core.errors import StoreError, StoreUnavailableError
from tinyjobs.core.sight import out_of_sight

# How long a new connection may take to answer its first statement.
_SETUP = 5.0

type _AsyncRaw = psycopg.AsyncConnection[Any]


class LoopPool(Retrying):
    """A runner on connections that belong to one event loop: the one on which it is first used."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pool: AsyncConnectionPool[_AsyncRaw] | None = None
        self._process = os.getpid()
        self._closed = False
        self._opening: asyncio.Lock | None = None
        # Calls that wait for a connection, and those that have one, with what ends them when they must hurry.
        self._waiting: set[asyncio.Timeout] = set()
        self._in_use: dict[_AsyncRaw, asyncio.TimerHandle | None] = {}
        # Attempts to connect, which an end of the pool does not wait for.
        self._connecting: set[asyncio.Timeout] = set()

    async def apart[T](self, verb: Verb[T]) -> T:
        """Run the verb on a connection of its own, with the session's own settings, closed afterwards."""
        source = self._source
        try:
            raw = await psycopg.AsyncConnection.connect(**source.connect_keywords(), autocommit=True)
        except psycopg.Error as error:
            raise translate(error, source.where) from error
        try:
            for text in source.prelude:
                await raw.execute(text)
            return await verb(PostgresConnection(raw, source.where, prepare=False))
        finally:
            await raw.close()

    def hurry(self) -> None:
        """Bring the source's deadline home to the calls under way. On the pool's own loop."""
        if not self._waiting and not self._in_use:
            return
        left, loop = self._source.left(), asyncio.get_running_loop()
        for waiting in self._waiting:
            if not waiting.expired():
                waiting.reschedule(None if left is None else loop.time() + left)
        for raw in list(self._in_use):
            self._set_alarm(raw)

    async def close(self) -> None:
        """Let go of every connection."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            for connecting in self._connecting:
                if not connecting.expired():
                    connecting.reschedule(asyncio.get_running_loop().time())
            await pool.close(CLOSING)

    async def _run[T](self, verb: Verb[T]) -> T:
        pool = self._pool if self._pool is not None and self._process == os.getpid() else await self._open()
        source = self._source
        raw = await self._take(pool)
        self._in_use[raw] = None
        if source.deadline is not None:
            self._set_alarm(raw)
        try:
            return await verb(PostgresConnection(raw, source.where))
        except StoreError as error:
            if is_outdated(error):
                await raw.close()
            raise
        finally:
            alarm = self._in_use.pop(raw)
            if alarm is not None:
                alarm.cancel()
            await pool.putconn(raw)

    async def _take(self, pool: "AsyncConnectionPool[_AsyncRaw]") -> _AsyncRaw:
        source = self._source
        ends = source.clock.monotonic() + source.patience()
        waiting = asyncio.timeout(None)
        self._waiting.add(waiting)
        try:
            async with waiting:
                while True:
                    raw = await pool.getconn(max(ends - source.clock.monotonic(), 0.001))
                    if is_open(raw.pgconn):
                        return raw
                    # The pool makes another one in its place; meanwhile there may be one that is alive.
                    await pool.putconn(raw)
        except (PoolTimeout, TimeoutError) as error:
            raise source.none_left(error, len(self._in_use)) from error
        except psycopg.Error as error:
            raise translate(error, source.where) from error
        finally:
            self._waiting.discard(waiting)

    def _set_alarm(self, raw: _AsyncRaw) -> None:
        """Have the connection cut off at the deadline: to cancel its statement might wait for the server once more."""
        alarm, left = self._in_use[raw], self._source.left()
        if alarm is not None:
            alarm.cancel()
        self._in_use[raw] = None if left is None else asyncio.get_running_loop().call_later(left, cut_off, raw.pgconn)

    async def _open(self) -> "AsyncConnectionPool[_AsyncRaw]":
        source = self._source
        if self._closed:
            raise StoreUnavailableError(f"{source.where}: the store was closed.")
        if self._process != os.getpid():
            inherited.append(self._pool)
            self._pool, self._opening, self._process = None, None, os.getpid()
            self._waiting, self._in_use = set(), {}
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._pool is None:
                pool = AsyncConnectionPool(
                    "",
                    connection_class=_async_class(source, self._connecting, lambda: self._closed),
                    min_size=source.options.min_connections,
                    max_size=source.options.max_connections,
                    configure=self._configure,
                    timeout=source.options.pool_timeout,
                    max_idle=IDLE,
                    max_lifetime=LIFETIME,
                    reconnect_timeout=RECONNECT,
                    reconnect_failed=_go_on_trying_async,
                    name=NAME,
                    kwargs={"autocommit": True},
                    open=False,
                )
                await pool.open()
                for task in asyncio.all_tasks():
                    if task.get_name().startswith(f"{NAME}-"):
                        out_of_sight(task)
                self._pool = pool
        return self._pool

    async def _configure(self, raw: _AsyncRaw) -> None:
        text, parameters = self._source.settings()
        connecting = asyncio.timeout(_SETUP)
        self._connecting.add(connecting)
        try:
            async with connecting:
                for before in self._source.prelude:
                    await raw.execute(before)
                await raw.execute(text, parameters, prepare=False)
        except BaseException:
            # The pool forgets one that could not be set up.
            await raw.close()
            raise
        finally:
            self._connecting.discard(connecting)


def _async_class(source: Source, under_way: set[asyncio.Timeout], is_closed: Callable[[], bool]) -> Any:
    class Connection(psycopg.AsyncConnection[Any]):
        @classmethod
        async def connect(cls, conninfo: str = "", **given: Any) -> Any:
            if is_closed():
                raise psycopg.OperationalError("the store was closed")
            under_way.add(connecting := asyncio.timeout(None))
            try:
                with source.noting():
                    async with connecting:
                        return await super().connect(conninfo, **source.connect_keywords(), **given)
            finally:
                under_way.discard(connecting)

        async def _try_cancel(self, **options: Any) -> None:
            # The driver asks the server to end a statement that is cancelled, and may wait seconds for its answer.
            if source.deadline is None and not is_closed():
                await super()._try_cancel(**options)
            else:
                cut_off(self.pgconn)
                raise psycopg.errors.QueryCanceled

    return Connection


async def _go_on_trying_async(pool: "AsyncConnectionPool[_AsyncRaw]") -> None:
    """An attempt to connect has ended: whoever still waits needs another one."""
    if pool.get_stats().get("requests_waiting"):
        await pool.check()
