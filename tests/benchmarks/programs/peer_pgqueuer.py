"""pgqueuer with its own `pgqueuer.run`, on asyncpg and uvloop, set up as its guide to performance tells.

The command `pgq run` does the same, and does not start with the newest typer.

Its slots are `max_concurrent_tasks`, with the largest batch it allows for them. With the variant "unbounded" nothing
bounds its tasks, and a batch has as many jobs as the others have slots. With "unlogged" its log is not durable
("balanced"). It takes coroutines alone; a thread job is one that waits for `asyncio.to_thread`, as its error says to.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from asynchronous import AsynchronousProgram
from measuring import main

PRIORITIES = 50


class PgQueuer(AsynchronousProgram):
    name = "pgqueuer"

    def load(self) -> None:
        super().load()
        if "unlogged" in self.arguments.variant:
            os.environ["PGQUEUER_DURABILITY"] = "balanced"
        self.noop, self.stamp = f"noop_{self.kind}", f"stamp_{self.kind}"
        if self.arguments.shape != "work":
            self.queries = self.wait_for(self._connect())

    async def _connect(self) -> Any:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        self.connection = await asyncpg.connect(self.arguments.store)
        return Queries(AsyncpgDriver(self.connection))

    def prepare(self) -> None:
        self.wait_for(self.queries.install())
        self.wait_for(self.queries.optimize_autovacuum())

    def enqueue(self, index: int) -> None:
        self.wait_for(self.queries.enqueue(self.stamp, str(index).encode()))

    def enqueue_delayed(self, index: int, delay: float) -> None:
        after = timedelta(seconds=delay)
        self.wait_for(self.queries.enqueue(self.stamp, str(index).encode(), execute_after=after))

    def _send(self, entrypoint: str, payloads: list[bytes | None]) -> None:
        count = len(payloads)
        self.wait_for(self.queries.enqueue([entrypoint] * count, payloads, [0] * count))

    def enqueue_many(self, indexes: range) -> None:
        self._send(self.stamp, [str(index).encode() for index in indexes])

    def load_noops(self, jobs: int) -> None:
        self._send(self.noop, [None] * jobs)

    def work(self) -> None:
        import pgqueuer

        slots = self.arguments.slots or 20
        bounds = {"batch_size": slots}
        if "unbounded" not in self.arguments.variant:
            bounds = {"batch_size": max(1, slots // 2), "max_concurrent_tasks": slots}
        self.wait_for(pgqueuer.run("pgqueuer_tasks:main", **bounds))

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        """A finished job is gone from its queue and stands in its log, with a line for each of its three steps."""
        (done,) = self.wait_for(self.queries.enqueue(self.noop, None))
        self.run_noops()
        later = timedelta(days=99)
        (late,) = self.wait_for(self.queries.enqueue(self.noop, None, priority=priority, execute_after=later))
        spread = {"priority": f"pgqueuer.priority + mod(n, {PRIORITIES})"}
        with self.reading() as connection:
            self.store.copy_for(connection, "pgqueuer_log", "job_id", done, list(range(10**6, 10**6 + finished)))
            self.store.copy(connection, "pgqueuer", "id", late, delayed, spread)
        return {"finished": finished, "delayed": delayed, "priority": priority}

    def unfinished(self) -> bool:
        query = "SELECT 1 FROM pgqueuer WHERE status = 'picked' OR status = 'queued' AND execute_after <= now() LIMIT 1"
        with self.reading() as connection:
            return connection.execute(query).fetchone() is not None

    def finished(self) -> int | None:
        with self.reading() as connection:
            query = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"
            return int(connection.execute(query).fetchone()[0])

    def close(self) -> None:
        self.wait_for(self.connection.close())

    def details(self) -> dict[str, Any]:
        from importlib.metadata import version

        return {"version": version("pgqueuer")}


if __name__ == "__main__":
    main(PgQueuer)
