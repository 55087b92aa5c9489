"""The Postgres store: its faces, how its tables come to be, and how it wakes an idle worker.

`postgresql://user:password@host/database` or `postgres://…`. The async face is bound to the event loop it is first
used on; `inline()` serves threads.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from tinyjobs.backends.postgres.dialect import PostgresDialect
from tinyjobs.backends.postgres.options import PostgresOptions, parse_url
from tinyjobs.backends.postgres.pool import LoopPool, Source, ThreadPool
from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.layout import install
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.url import shown_url

PACKAGE = "tinyjobs.backends.postgres"


class PostgresBackend(SqlBackend):
    """Jobs in a Postgres database. `keywords` gives the connection's settings anew for each connection."""

    capabilities = replace(SqlBackend.capabilities, loop_bound=True)

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
        dialect = PostgresDialect(Statements(PACKAGE, options.prefix, options.schema))
        super().__init__(dialect, self._own, clock=clock, by_server=True)

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> Self:
        """A store from its URL; options may stand in the URL's query as well."""
        keywords, parsed = parse_url(url, options)
        return cls(lambda: keywords, where=shown_url(url), clock=clock, options=parsed)

    async def setup(self) -> None:
        """Create the tables, or check that this release can work on those that are there."""
        if not self._source.is_placed:
            runner: Any = self._runner
            await runner.apart(self._install)
            self._source.is_placed = True

    def inline(self) -> Self:
        """The twin for synchronous callers: a connection of the threads' pool for each call, nothing suspends."""
        return self.on(self._threads)

    def apart(self) -> Self:
        """The same store with connections of its own, for another event loop."""
        return type(self)(
            self._source.keywords,
            where=self.where,
            clock=self.clock,
            options=self.options,
            prelude=self._source.prelude,
        )

    def hurry(self, deadline: float | None) -> None:
        """End every wait for a connection by `deadline` (monotonic seconds); None: the pool's timeout alone counts."""
        self._source.deadline = deadline

    async def close(self) -> None:
        """Close every connection, also the threads'."""
        await self._own.close()
        await self._threads.close()

    async def _install(self, connection: Connection) -> None:
        await self._place(connection)
        await install(connection, self.statements, self.where)

    async def _place(self, connection: Connection) -> None:
        """Find the schema of the tables; from here on every statement names it."""
        schema = self.options.schema
        if schema is None:
            ((schema,),) = await connection.fetch(self.statements["find_schema"], [f"{self.options.prefix}_jobs"])
        self.statements.place_in(schema)
