"""A runner on a pool of connections for threads that call and wait: a connection for the length of each call.

What is decided here is when a call gives up, how soon a server that is back is found, and that a forked child never
touches what it inherited.
"""

import os
import threading
import weakref
from contextlib import suppress
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from tinyjobs.backends.postgres.connection import PostgresConnection
from tinyjobs.backends.postgres.errors import is_outdated, translate
from tinyjobs.backends.postgres.liveness import is_open
from tinyjobs.backends.postgres.pool import CLOSING, IDLE, LIFETIME, NAME, RECONNECT, Retrying, inherited
from tinyjobs.backends.postgres.source import Source
from tinyjobs.backends.sql.connection import Verb
from tinyjobs.core.errors import StoreError, StoreUnavailableError

type _SyncRaw = psycopg.Connection[Any]


class ThreadPool(Retrying):
    """A runner for threads: a connection for the length of each call, waited for in the calling thread."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pool: ConnectionPool[_SyncRaw] | None = None
        self._process = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        self._in_use: set[_SyncRaw] = set()

    async def apart[T](self, verb: Verb[T]) -> T:
        """Run the verb on a connection of its own, with the session's own settings, closed afterwards."""
        source = self._source
        try:
            raw = psycopg.Connection.connect(**source.connect_keywords(), autocommit=True)
        except psycopg.Error as error:
            raise translate(error, source.where) from error
        try:
            for text in source.prelude:
                raw.execute(text)
            return await verb(PostgresConnection(raw, source.where, prepare=False))
        finally:
            raw.close()

    async def close(self) -> None:
        """Let go of every connection."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            pool.close(CLOSING)

    async def _run[T](self, verb: Verb[T]) -> T:
        pool = self._pool if self._pool is not None and self._process == os.getpid() else self._open()
        taken = _Taken(pool, self._in_use)
        try:
            raw = self._take(taken)
            return await verb(PostgresConnection(raw, self._source.where))
        except StoreError as error:
            if is_outdated(error):
                taken.close()
            raise
        finally:
            taken.put_back()

    def _take(self, taken: "_Taken") -> _SyncRaw:
        source = self._source
        ends = source.clock.monotonic() + source.patience()
        try:
            while True:
                raw = taken.one_more(max(ends - source.clock.monotonic(), 0.001))
                if is_open(raw.pgconn):
                    return raw
                taken.put_back()
        except PoolTimeout as error:
            raise source.none_left(error, len(self._in_use)) from error
        except psycopg.Error as error:
            raise translate(error, source.where) from error

    def _open(self) -> "ConnectionPool[_SyncRaw]":
        source = self._source
        if self._process != os.getpid():
            # No lock: one that another thread of the parent's held would never be let go here.
            inherited.append(self._pool)
            self._pool, self._lock, self._process = None, threading.Lock(), os.getpid()
            self._in_use = set()
        with self._lock:
            if self._closed:
                raise StoreUnavailableError(f"{source.where}: the store was closed.")
            if self._pool is None:
                pool = ConnectionPool(
                    "",
                    connection_class=_sync_class(source),
                    min_size=0,
                    max_size=source.options.max_connections,
                    configure=self._configure,
                    timeout=source.options.pool_timeout,
                    max_idle=IDLE * 6,
                    max_lifetime=LIFETIME,
                    reconnect_timeout=RECONNECT,
                    reconnect_failed=_go_on_trying,
                    name=f"{NAME}-threads",
                    kwargs={"autocommit": True},
                    open=False,
                )
                pool.open()
                # An app that nobody closed must not hold up the end of its process.
                weakref.finalize(self, _let_go, pool, os.getpid())
                self._pool = pool
            return self._pool

    def _configure(self, raw: _SyncRaw) -> None:
        text, parameters = self._source.settings()
        try:
            for before in self._source.prelude:
                raw.execute(before)
            raw.execute(text, parameters, prepare=False)
        except BaseException:
            # The pool forgets one that could not be set up.
            raw.close()
            raise


class _Taken:
    """What one call has out of the pool. It goes back with this object at the latest, so that an interrupt on any line
    of the call costs the pool no connection.
    """

    __slots__ = ("_in_use", "_pool", "_raws")

    def __init__(self, pool: "ConnectionPool[_SyncRaw]", in_use: set[_SyncRaw]) -> None:
        self._pool = pool
        self._in_use = in_use
        self._raws: list[_SyncRaw] = []

    def one_more(self, seconds: float) -> _SyncRaw:
        self._raws.append(self._pool.getconn(seconds))
        self._in_use.add(self._raws[-1])
        return self._raws[-1]

    def close(self) -> None:
        for raw in self._raws:
            raw.close()

    def put_back(self) -> None:
        while self._raws:
            self._in_use.discard(self._raws[-1])
            self._pool.putconn(self._raws[-1])
            self._raws.pop()

    def __del__(self) -> None:
        # One that went back just before the interrupt is refused by the pool.
        with suppress(ValueError):
            self.put_back()


def _let_go(pool: "ConnectionPool[_SyncRaw]", process: int) -> None:
    if os.getpid() == process:
        pool.close(timeout=1.0)


def _sync_class(source: Source) -> Any:
    class Connection(psycopg.Connection[Any]):
        @classmethod
        def connect(cls, conninfo: str = "", **given: Any) -> Any:
            with source.noting():
                return super().connect(conninfo, **source.connect_keywords(), **given)

    return Connection


def _go_on_trying(pool: "ConnectionPool[_SyncRaw]") -> None:
    if pool.get_stats().get("requests_waiting"):
        pool.check()
