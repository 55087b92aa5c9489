"""procrastinate with its `procrastinate worker` command; jobs are sent through its synchronous face, as from Django.

It runs plain functions in threads of asyncio's own executor, as many at a time as it has slots.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from measuring import Program, main

PRIORITIES = 50


class Procrastinate(Program):
    name = "procrastinate"

    def load(self) -> None:
        import procrastinate_tasks

        self.app = procrastinate_tasks.app
        self.noop = getattr(procrastinate_tasks, f"noop_{self.kind}")
        self.stamp = getattr(procrastinate_tasks, f"stamp_{self.kind}")
        if self.arguments.shape != "work":
            self.app.open()

    def prepare(self) -> None:
        self.app.schema_manager.apply_schema()

    def enqueue(self, index: int) -> None:
        self.stamp.defer(index=index)

    def enqueue_delayed(self, index: int, delay: float) -> None:
        self.stamp.configure(schedule_in={"seconds": delay}).defer(index=index)

    def enqueue_many(self, indexes: range) -> None:
        self.stamp.batch_defer(*({"index": index} for index in indexes))

    def load_noops(self, jobs: int) -> None:
        self.noop.batch_defer(*({} for _ in range(jobs)))

    def work(self) -> None:
        from procrastinate.cli import main as command

        slots = str(self.arguments.slots or 1)
        sys.argv = ["procrastinate", "--log-level", "warning", "--app", "procrastinate_tasks.app", "worker"]
        sys.argv += ["--concurrency", slots]
        command()

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        done = self.noop.defer()
        self.run_noops()
        due = datetime.now(UTC) + timedelta(days=99)
        late = self.noop.configure(schedule_at=due, priority=priority).defer()
        spread = {"priority": f"procrastinate_jobs.priority + mod(n, {PRIORITIES})"}
        with self.reading() as connection:
            ids = self.store.copy(connection, "procrastinate_jobs", "id", done, finished)
            # Triggers wrote the first event of each copy.
            query = "DELETE FROM procrastinate_events WHERE job_id = ANY(%s)"
            connection.execute(query, (ids,))
            self.store.copy_for(connection, "procrastinate_events", "job_id", done, ids)
            self.store.copy(connection, "procrastinate_jobs", "id", late, delayed, spread)
        return {"finished": finished, "delayed": delayed, "priority": priority}

    def unfinished(self) -> bool:
        query = (
            "SELECT 1 FROM procrastinate_jobs WHERE status = 'doing'"
            " OR status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now()) LIMIT 1"
        )
        with self.reading() as connection:
            return connection.execute(query).fetchone() is not None

    def finished(self) -> int | None:
        with self.reading() as connection:
            query = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
            return int(connection.execute(query).fetchone()[0])

    def close(self) -> None:
        self.app.close()

    def details(self) -> dict[str, Any]:
        from importlib.metadata import version

        return {"version": version("procrastinate")}


if __name__ == "__main__":
    main(Procrastinate)
