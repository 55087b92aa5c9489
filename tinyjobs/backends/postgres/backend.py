"""The Postgres store: its faces, how its tables come to be, and how it wakes an idle worker.

`postgresql://user:password@host/database` or `postgres://…`. The async face is bound to the event loop it is first
used on; `inline()` serves threads.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from tinyjobs.backends.base import Backend
from tinyjobs.backends.postgres import indexes
from tinyjobs.backends.postgres.audit import audit
from tinyjobs.backends.postgres.dialect import PostgresDialect
from tinyjobs.backends.postgres.joining import Joining
from tinyjobs.backends.postgres.listener import Listener
from tinyjobs.backends.postgres.looppool import LoopPool
from tinyjobs.backends.postgres.notifying import Debounce, topic_of
from tinyjobs.backends.postgres.options import PostgresOptions, parse_url
from tinyjobs.backends.postgres.pooling import refuse_transaction_pooling
from tinyjobs.backends.postgres.source import Source
from tinyjobs.backends.postgres.threadpool import ThreadPool
from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.layout import check_tables, install
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.backends.waiters import Waiters
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import ConfigurationError, StoreError
from tinyjobs.core.job import ClaimRequest, Recorded
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import Outcome
from tinyjobs.core.url import shown_url
from tinyjobs.core.watching import Finding

logger = logging.getLogger("tinyjobs.store")

PACKAGE = "tinyjobs.backends.postgres"
# A row travels as one message of a gigabyte at most, with arguments and result.
_LARGEST = 500_000_000
# Of a database in which any text can be kept. Without an encoding of its own it holds what it is sent, which is UTF-8.
_ENCODINGS = ("UTF8", "SQL_ASCII")
# The SQLSTATE of a role that may not do what was asked.
_FORBIDDEN = "42501"


class PostgresBackend(SqlBackend):
    """Jobs in a Postgres database. `keywords` gives the connection's settings anew for each connection."""

    capabilities = replace(
        SqlBackend.capabilities, transactional_enqueue=True, loop_bound=True, max_payload_bytes=_LARGEST
    )

    def __init__(
        self,
        keywords: Callable[[], Mapping[str, Any]],
        *,
        where: str,
        clock: Clock | None = None,
        options: PostgresOptions | None = None,
        prelude: tuple[str, ...] = (),
    ) -> None:
        self.options = options = options or PostgresOptions()
        clock = clock or SystemClock()
        self.where = where
        self._source = Source(keywords=keywords, options=options, where=where, clock=clock, prelude=prelude)
        self._own = LoopPool(self._source)
        self._threads = ThreadPool(self._source)
        self._waiters = Waiters()
        self._debounce = Debounce()
        self._listener: Listener | None = None
        dialect = PostgresDialect(Statements(PACKAGE, options.prefix, options.schema))
        self._joining = Joining(dialect.statements, where)
        super().__init__(dialect, self._own, clock=clock, by_server=True)

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> Self:
        """A store from its URL; options may stand in the URL's query as well."""
        keywords, parsed = parse_url(url, options)
        return cls(lambda: keywords, where=shown_url(url), clock=clock, options=parsed)

    async def setup(self) -> None:
        """Create the tables, or check those that are there and build the indexes that they lack.

        Raises `StoreBusyError` where an index that jobs depend on had to wait for somebody else for too long.
        """
        if not self._source.is_placed:
            runner: Any = self._runner
            await runner.apart(self._prepare)
            self._source.is_placed = True

    async def check_layout(self) -> None:
        """A few reads on a connection of its own. Indexes are left to `setup`."""
        if not self._source.is_placed:
            runner: Any = self._runner
            await runner.apart(self._look_for_tables)

    def inline(self) -> Self:
        """The twin for synchronous callers: a connection of the threads' pool for each call, nothing suspends."""
        return self.on(self._threads)

    def apart(self) -> Self:
        """The same store with connections of its own, for another event loop."""
        other = type(self)(
            self._source.keywords,
            where=self.where,
            clock=self.clock,
            options=self.options,
            prelude=self._source.prelude,
        )
        other._waiters = self._waiters
        if self._source.is_placed:
            # The tables stay where they were found, whatever stands before them on the search path by now.
            other.dialect, other._source.is_placed = self.dialect, True
            other._joining = self._joining
        return other

    def joined(self, tx: object) -> Backend:
        """See `Backend.joined`. The store has to be set up."""
        return self._joining.store(tx, self.dialect, self.clock, awaits=self._runner is not self._threads)

    def hurry(self, deadline: float | None) -> None:
        """End every wait by `deadline` (monotonic seconds), for a connection and for an answer; None: as usual."""
        self._source.deadline = deadline
        self._own.hurry()

    async def close(self) -> None:
        """Close every connection, also the threads'."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
        self._waiters.nudge()
        await self._own.close()
        await self._threads.close()

    async def audit(self) -> list[Finding]:
        """One read."""
        return await self._runner.run(lambda connection: audit(connection, self.statements), write=False)

    # --- waking -------------------------------------------------------------------------------------------------

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        """See `SqlBackend.record`. What a worker puts back without claiming is told to the others."""
        recorded = await super().record(outcomes, request)
        if request is None and any(outcome.status is JobStatus.QUEUED for outcome in outcomes):
            await self._added()
        return recorded

    async def wait_for_jobs(self, timeout: float, queues: Sequence[str] = ()) -> bool:
        """Wait for a nudge or a notification. What came since the same task waited last counts as well.

        Raises `StoreUnavailableError` once when the connection that listens is lost.
        """
        waiter = self._waiters.mine(map(topic_of, queues))
        if not self.options.notify:
            return await waiter.told(timeout)
        if self._listener is None or not self._listener.is_usable:
            self._listener = Listener(self._source, self._waiters, self._channel, self._tell)
        return await self._listener.wait(waiter, timeout)

    def can_wake(self) -> bool:
        """Whether notifications arrive, as far as is known. One that is lost is found out by the next check."""
        return self._listener is not None and self._listener.hears

    def claims_freely(self) -> bool:
        """One round trip either way, and no lock where nothing is found."""
        return True

    def nudge(self, queues: Collection[str] = ()) -> None:
        """Wake the workers of this process that wait on this store."""
        self._waiters.nudge(map(topic_of, queues))

    async def _added(self, queues: Collection[str] = ()) -> None:
        if self._runner is not self._own and self._runner is not self._threads:
            # In a transaction of the caller's nobody can see the job yet, and a notification would hold up the
            # commits of everybody else.
            return
        self.nudge(queues)
        if self.options.notify and (topics := self._debounce.topics(queues)):
            try:
                await self._tell(",".join(topics))
            except StoreError as error:
                logger.debug("no notification was sent, so idle workers will find the job by polling: %s", error)

    async def _tell(self, topics: str) -> None:
        # As a write, since one that may or may not have been sent is not worth another try.
        await self._runner.run(lambda connection: connection.fetch(self.statements["notify"], [topics]), write=True)

    async def _channel(self) -> str:
        found = await self._runner.run(lambda connection: connection.fetch(self.statements["channel"]), write=False)
        if not found:
            raise StoreError(f"{self.where}: the meta table has no row {'instance'!r}; setup() writes it.")
        return str(found[0][0])

    # --- how it comes to be -------------------------------------------------------------------------------------

    async def _prepare(self, connection: Connection) -> None:
        runner: Any = self._runner
        await refuse_transaction_pooling(connection, self.statements["session"], runner.apart, self.where)
        await self._install(connection)

    async def _look_for_tables(self, connection: Connection) -> None:
        await self._place(connection)
        await check_tables(connection, self.statements, self.where)

    async def _install(self, connection: Connection) -> None:
        await self._place(connection)
        try:
            await install(
                connection, self.statements, self.where, suits=self._suits, first=self._begin_layout, tables_only=True
            )
        except StoreError as error:
            if getattr(error, "sqlstate", None) != _FORBIDDEN:
                raise
            raise ConfigurationError(
                f"{error}. To make the tables a role has to own the schema, or needs GRANT CREATE ON SCHEMA, and ON "
                f"DATABASE for a schema that is missing. Or let one that may call setup() once, and grant this one "
                f"SELECT, INSERT, UPDATE and DELETE."
            ) from error
        await self._joining.learn(connection)
        await indexes.mend(connection, self.statements, self.where)

    async def _place(self, connection: Connection) -> None:
        """Find the schema of the tables; from here on every statement names it."""
        schema = self.options.schema
        if schema is None:
            ((schema,),) = await connection.fetch(self.statements["find_schema"], [f"{self.options.prefix}_jobs"])
        if schema is None:
            raise ConfigurationError(
                f"{self.where}: no schema of the search_path exists, so there is no place for tables. Name one with "
                f"schema=, which is made if it is missing."
            )
        self.statements.place_in(schema)

    async def _suits(self, connection: Connection) -> None:
        ((encoding,),) = await connection.fetch(self.statements["encoding"])
        if encoding not in _ENCODINGS:
            raise ConfigurationError(
                f"{self.where}: a database with the encoding {encoding} cannot hold every text, and a job whose error "
                f"it cannot keep would never end. Keep the jobs in a database made with ENCODING 'UTF8'."
            )

    async def _begin_layout(self, connection: Connection) -> None:
        """One process at a time makes tables; the schema is made as well, where it is missing and was asked for."""
        await connection.execute(self.statements["as_read_committed"])
        await connection.execute(self.statements["lock_layout"], ["tinyjobs"])
        schema = self.options.schema
        if schema is not None and not await connection.fetch(self.statements["has_schema"], [schema]):
            await connection.execute(self.statements["make_schema"])
