"""Who runs a verb on which connection: a pool bound to one event loop, or a pool for threads that call and wait.

Both are psycopg's own pools. What is decided here is when a call gives up, what is tried again, and that a forked
child never touches what it inherited.
"""

import asyncio
import logging
import os
import select
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import pq
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from tinyjobs.backends.postgres.connection import PostgresConnection
from tinyjobs.backends.postgres.errors import is_lost, is_worth_retrying, translate
from tinyjobs.backends.postgres.options import PostgresOptions
from tinyjobs.backends.sql.connection import Verb
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import StoreBusyError, StoreError, StoreUnavailableError

logger = logging.getLogger("tinyjobs.store")

_NAME = "tinyjobs"
# A connection beyond the smallest number goes after this long without use; each one is replaced after half an hour.
_IDLE = 10.0
_LIFETIME = 1800.0
# How often a transaction runs again that the server undid for the sake of another one.
_TRIES = 3
# What a call that is told to hurry may still wait for a connection.
_LEAST = 0.5
# How long a new connection may take to answer its first statement.
_SETUP = 5.0
# Pools that a forked child found. Closing them would talk on the parent's connections.
_inherited: list[object] = []


@dataclass(slots=True, kw_only=True)
class Source:
    """How connections are made. `keywords` is called for each, since a password may have changed meanwhile."""

    keywords: Callable[[], Mapping[str, Any]]
    options: PostgresOptions
    where: str
    clock: Clock
    #: Statements for a new connection beside the settings, such as one that takes on a role.
    prelude: tuple[str, ...] = ()
    #: Until when a call may wait (clock.monotonic); None: as long as it usually does.
    deadline: float | None = None
    #: Whether our tables are named with their schema, so that no other one has to be searched.
    is_placed: bool = False
    process: int = field(default_factory=os.getpid)

    def connect_keywords(self) -> dict[str, Any]:
        """The keywords for a new connection."""
        wait = max(2, min(5, round(self.options.pool_timeout)))
        return {
            "application_name": _NAME,
            "client_encoding": "UTF8",
            "connect_timeout": wait,
            "keepalives": 1,
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
            **self.keywords(),
        }

    def settings(self) -> tuple[str, list[Any]]:
        """The one statement that sets a new connection up, and its parameters."""
        timeout = self.options.statement_timeout
        wanted: dict[str, str] = {
            "default_transaction_isolation": "read committed",
            "statement_timeout": "0" if timeout is None else f"{round(timeout * 1000)}",
            "idle_in_transaction_session_timeout": "60000",
            "jit": "off",
            # A plan made anew for every claim costs more than the claim.
            "plan_cache_mode": "force_generic_plan",
            "enable_seqscan": "off",
            "enable_bitmapscan": "off",
        }
        if self.is_placed:
            wanted["search_path"] = "pg_catalog, pg_temp"
        calls = ", ".join("pg_catalog.set_config(%s, %s, false)" for _ in wanted)
        raised = (
            "pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit') "
            "WHEN 'off' THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, false)"
        )
        return f"SELECT {raised}, {calls}", [part for pair in wanted.items() for part in pair]

    def patience(self) -> float:
        """For how many seconds a call may wait for a connection now."""
        usual = self.options.pool_timeout
        if self.deadline is None:
            return usual
        return max(min(usual, self.deadline - self.clock.monotonic()), _LEAST)

    def none_left(self, error: PoolTimeout, has_some: bool) -> StoreError:
        """The error of a call that got no connection in time."""
        if has_some:
            text = (
                f"{self.where}: all {self.options.max_connections} connections were in use for "
                f"{self.options.pool_timeout:g} s. Raise max_connections, or run fewer calls at once."
            )
            told: StoreError = StoreBusyError(text)
        else:
            told = StoreUnavailableError(f"{self.where}: no connection could be opened.")
        told.__cause__ = error
        return told


class LoopPool:
    """A runner on connections that belong to one event loop: the one on which it is first used."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]] | None = None
        self._closed = False
        self._opening: asyncio.Lock | None = None

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb on a connection of the pool. Raises `StoreBusyError` where none came free in time."""
        tries = 0
        while True:
            try:
                return await self._run(verb)
            except StoreError as error:
                tries += 1
                if not _may_try_again(error, write, tries):
                    raise
                logger.warning("%s Running it again.", error)

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

    async def close(self) -> None:
        """Let go of every connection."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None and self._source.process == os.getpid():
            await pool.close()

    async def _run[T](self, verb: Verb[T]) -> T:
        pool = self._pool if self._pool is not None and self._source.process == os.getpid() else await self._open()
        source = self._source
        try:
            raw = await pool.getconn(source.patience())
        except PoolTimeout as error:
            raise source.none_left(error, pool.get_stats().get("pool_size", 0) > 0) from error
        except psycopg.Error as error:
            raise translate(error, source.where) from error
        try:
            return await verb(PostgresConnection(raw, source.where))
        finally:
            await pool.putconn(raw)

    async def _open(self) -> "AsyncConnectionPool[psycopg.AsyncConnection[Any]]":
        source = self._source
        if self._closed:
            raise StoreUnavailableError(f"{source.where}: the store was closed.")
        if source.process != os.getpid():
            _inherited.append(self._pool)
            self._pool, self._opening, source.process = None, None, os.getpid()
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._pool is None:
                pool = AsyncConnectionPool(
                    "",
                    connection_class=_async_class(source),
                    min_size=source.options.min_connections,
                    max_size=source.options.max_connections,
                    configure=self._configure,
                    check=_check_async,
                    timeout=source.options.pool_timeout,
                    max_idle=_IDLE,
                    max_lifetime=_LIFETIME,
                    reconnect_timeout=source.options.pool_timeout,
                    name=_NAME,
                    kwargs={"autocommit": True},
                    open=False,
                )
                await pool.open()
                self._pool = pool
        return self._pool

    async def _configure(self, raw: "psycopg.AsyncConnection[Any]") -> None:
        text, parameters = self._source.settings()
        async with asyncio.timeout(_SETUP):
            for before in self._source.prelude:
                await raw.execute(before)
            await raw.execute(text, parameters, prepare=False)


class ThreadPool:
    """A runner for threads: a connection for the length of each call, waited for in the calling thread."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pool: ConnectionPool[psycopg.Connection[Any]] | None = None
        self._closed = False
        self._lock = threading.Lock()

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb here and now. Raises `StoreBusyError` where no connection came free in time."""
        tries = 0
        while True:
            try:
                return await self._run(verb)
            except StoreError as error:
                tries += 1
                if not _may_try_again(error, write, tries):
                    raise
                logger.warning("%s Running it again.", error)

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
        if pool is not None and self._source.process == os.getpid():
            pool.close()

    async def _run[T](self, verb: Verb[T]) -> T:
        pool = self._pool if self._pool is not None and self._source.process == os.getpid() else self._open()
        source = self._source
        try:
            raw = pool.getconn(source.patience())
        except PoolTimeout as error:
            raise source.none_left(error, pool.get_stats().get("pool_size", 0) > 0) from error
        except psycopg.Error as error:
            raise translate(error, source.where) from error
        try:
            return await verb(PostgresConnection(raw, source.where))
        finally:
            pool.putconn(raw)

    def _open(self) -> "ConnectionPool[psycopg.Connection[Any]]":
        source = self._source
        if source.process != os.getpid():
            # No lock: one that another thread of the parent's held would never be let go here.
            _inherited.append(self._pool)
            self._pool, self._lock, source.process = None, threading.Lock(), os.getpid()
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
                    check=_check_sync,
                    timeout=source.options.pool_timeout,
                    max_idle=_IDLE * 6,
                    max_lifetime=_LIFETIME,
                    reconnect_timeout=source.options.pool_timeout,
                    name=f"{_NAME}-threads",
                    kwargs={"autocommit": True},
                    open=False,
                )
                pool.open()
                # An app that nobody closed must not hold up the end of its process.
                weakref.finalize(self, _let_go, pool, os.getpid())
                self._pool = pool
            return self._pool

    def _configure(self, raw: "psycopg.Connection[Any]") -> None:
        text, parameters = self._source.settings()
        for before in self._source.prelude:
            raw.execute(before)
        raw.execute(text, parameters, prepare=False)


def _let_go(pool: "ConnectionPool[psycopg.Connection[Any]]", process: int) -> None:
    if os.getpid() == process:
        pool.close(timeout=1.0)


def _may_try_again(error: StoreError, write: bool, tries: int) -> bool:
    if is_worth_retrying(error):
        return tries <= _TRIES
    return not write and is_lost(error) and not isinstance(error.__cause__, PoolTimeout) and tries == 1


def _async_class(source: Source) -> Any:
    class Connection(psycopg.AsyncConnection[Any]):
        @classmethod
        async def connect(cls, conninfo: str = "", **given: Any) -> Any:
            return await super().connect(conninfo, **source.connect_keywords(), **given)

    return Connection


def _sync_class(source: Source) -> Any:
    class Connection(psycopg.Connection[Any]):
        @classmethod
        def connect(cls, conninfo: str = "", **given: Any) -> Any:
            return super().connect(conninfo, **source.connect_keywords(), **given)

    return Connection


async def _check_async(raw: "psycopg.AsyncConnection[Any]") -> None:
    _check(raw.pgconn)


def _check_sync(raw: "psycopg.Connection[Any]") -> None:
    _check(raw.pgconn)


def _check(pgconn: Any) -> None:
    """Read what the server has sent already, without asking it: a connection it has closed is not handed out."""
    if pgconn.status == pq.ConnStatus.OK:
        readable, _, _ = select.select([pgconn.socket], [], [], 0)
        if readable:
            with suppress(psycopg.OperationalError):
                pgconn.consume_input()
                while pgconn.notifies() is not None:
                    continue
    if pgconn.status != pq.ConnStatus.OK:
        raise psycopg.OperationalError("the server has closed this connection")


class _OursOnly(logging.Filter):
    """Silences what psycopg's pools say of ours: the same is told once by whoever meets it."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not any(str(argument).find(f"'{_NAME}") >= 0 or argument == _NAME for argument in record.args or ())


logging.getLogger("psycopg.pool").addFilter(_OursOnly())
