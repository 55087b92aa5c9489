"""oban with its `oban start` command. It runs jobs on its event loop, so a thread job waits for `asyncio.to_thread`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from asynchronous import AsynchronousProgram
from measuring import main


class Oban(AsynchronousProgram):
    name = "oban"

    def load(self) -> None:
        super().load()
        import oban_tasks

        self.noop = getattr(oban_tasks, f"noop_{self.kind}")
        self.stamp = getattr(oban_tasks, f"stamp_{self.kind}")

        if self.arguments.shape != "work":
            from oban import Oban as Instance

            self.pool = self.wait_for(Instance.create_pool(self.arguments.store))
            self.oban = Instance(pool=self.pool, leadership=False)

    def prepare(self) -> None:
        from oban.schema import install

        self.wait_for(install(self.pool))

    def enqueue(self, index: int) -> None:
        self.wait_for(self.oban.enqueue(self.stamp.new(index)))

    def enqueue_delayed(self, index: int, delay: float) -> None:
        job = self.stamp.new(index)
        job.scheduled_at = datetime.now(UTC) + timedelta(seconds=delay)
        self.wait_for(self.oban.enqueue(job))

    def enqueue_many(self, indexes: range) -> None:
        self.wait_for(self.oban.enqueue_many([self.stamp.new(index) for index in indexes]))

    def load_noops(self, jobs: int) -> None:
        self.wait_for(self.oban.enqueue_many([self.noop.new() for _ in range(jobs)]))

    def work(self) -> None:
        from oban.cli import main as command

        queues = f"default:{self.arguments.slots or 10}"
        sys.argv = ["oban", "start", "--dsn", self.arguments.store, "--queues", queues, "--log-level", "WARNING"]
        sys.argv += ["--cron-modules", "oban_tasks"]
        command()

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        """Its priorities are ten, from 0, which is the first and what a job has by default."""
        done = self.wait_for(self.oban.enqueue(self.noop.new())).id
        self.run_noops()
        later = self.noop.new()
        later.scheduled_at = datetime.now(UTC) + timedelta(days=99)
        late = self.wait_for(self.oban.enqueue(later)).id
        with self.reading() as connection:
            self.store.copy(connection, "oban_jobs", "id", done, finished)
            self.store.copy(connection, "oban_jobs", "id", late, delayed, {"priority": "mod(n, 10)"})
        return {"finished": finished, "delayed": delayed, "priority": 0}

    def unfinished(self) -> bool:
        query = (
            "SELECT 1 FROM oban_jobs WHERE state IN ('available', 'executing')"
            " OR state = 'scheduled' AND scheduled_at <= timezone('UTC', now()) LIMIT 1"
        )
        with self.reading() as connection:
            return connection.execute(query).fetchone() is not None

    def finished(self) -> int | None:
        with self.reading() as connection:
            query = "SELECT count(*) FROM oban_jobs WHERE state = 'completed'"
            return int(connection.execute(query).fetchone()[0])

    def close(self) -> None:
        self.wait_for(self.pool.close())

    def details(self) -> dict[str, Any]:
        from importlib.metadata import version

        return {"version": version("oban")}


if __name__ == "__main__":
    main(Oban)
