"""chancy with its `chancy worker start` command, its queue set to poll again as soon as a job ends.

Coroutines run in its asynchronous executor, plain functions in its threads. It records endings once a second.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from asynchronous import AsynchronousProgram
from measuring import main

PRIORITIES = 50


class Chancy(AsynchronousProgram):
    name = "chancy"

    def load(self) -> None:
        super().load()
        import chancy_tasks

        self.app = chancy_tasks.app
        self.noop = getattr(chancy_tasks, f"noop_{self.kind}").job
        self.stamp = getattr(chancy_tasks, f"stamp_{self.kind}").job
        if self.arguments.prepared:
            self.wait_for(self._declare())

    def prepare(self) -> None:
        self.wait_for(self.app.migrate())
        self.wait_for(self._declare())

    async def _declare(self) -> None:
        from chancy import Chancy as App
        from chancy import Queue

        executor = App.Executor.Async if self.kind == "coroutine" else App.Executor.Threaded
        slots = self.arguments.slots or 32
        queue = Queue("default", concurrency=slots, executor=executor, polling_interval=1, eager_polling=True)
        await self.app.declare(queue, upsert=True)

    def enqueue(self, index: int) -> None:
        self.app.sync_push(self.stamp.with_kwargs(index=index))

    def enqueue_delayed(self, index: int, delay: float) -> None:
        due = datetime.now(UTC) + timedelta(seconds=delay)
        self.app.sync_push(self.stamp.with_kwargs(index=index).with_scheduled_at(due))

    def enqueue_many(self, indexes: range) -> None:
        for _ in self.app.sync_push_many([self.stamp.with_kwargs(index=index) for index in indexes]):
            pass

    def load_noops(self, jobs: int) -> None:
        for _ in self.app.sync_push_many([self.noop] * jobs):
            pass

    def work(self) -> None:
        from chancy.cli.cli import main as command

        sys.argv = ["chancy", "--app", "chancy_tasks.app", "worker", "start"]
        command()

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        done = self.app.sync_push(self.noop).identifier
        self.run_noops()
        due = datetime.now(UTC) + timedelta(days=99)
        late = self.app.sync_push(self.noop.with_scheduled_at(due).with_priority(priority)).identifier
        spread = {"priority": f"chancy_jobs.priority + mod(n, {PRIORITIES})"}
        with self.reading() as connection:
            self.store.copy(connection, "chancy_jobs", "id", done, finished)
            self.store.copy(connection, "chancy_jobs", "id", late, delayed, spread)
        return {"finished": finished, "delayed": delayed, "priority": priority}

    def unfinished(self) -> bool:
        query = (
            "SELECT 1 FROM chancy_jobs WHERE state = 'running'"
            " OR state IN ('pending', 'retrying') AND scheduled_at <= now() LIMIT 1"
        )
        with self.reading() as connection:
            return connection.execute(query).fetchone() is not None

    def finished(self) -> int | None:
        with self.reading() as connection:
            query = "SELECT count(*) FROM chancy_jobs WHERE state = 'succeeded'"
            return int(connection.execute(query).fetchone()[0])

    def close(self) -> None:
        self.app.sync_pool.close()
        self.wait_for(self.app.pool.close())

    def details(self) -> dict[str, Any]:
        from importlib.metadata import version

        return {"version": version("chancy")}


if __name__ == "__main__":
    main(Chancy)
