"""huey's SQLite store with its own consumer and worker threads.

huey deletes a job as it takes it and acknowledges nothing, so its drain ends with the last job's end. Its slots are its
worker threads.
"""

from __future__ import annotations

import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from measuring import Program, main


class Huey(Program):
    name = "huey"
    kinds = ("thread",)
    shapes = ("enqueue", "drain", "latency", "idle", "lateness")
    stop_signal = signal.SIGINT

    def load(self) -> None:
        import huey_tasks

        self.tasks = huey_tasks

    def prepare(self) -> None:
        self.tasks.huey.pending_count()

    def enqueue(self, index: int) -> None:
        self.tasks.stamp(index)

    def enqueue_delayed(self, index: int, delay: float) -> None:
        self.tasks.stamp.schedule((index,), delay=delay)

    def load_noops(self, jobs: int) -> None:
        """Huey has no bulk call: the rows that its `enqueue` would write, in one transaction."""
        huey = self.tasks.huey
        rows = [(huey.name, huey.serialize_task(self.tasks.noop.s()), 0) for _ in range(jobs)]
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO task (queue, data, priority) VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        """It keeps no finished jobs, and delayed ones in a table of their own."""
        huey, due = self.tasks.huey, datetime.now(UTC) + timedelta(days=99)
        huey.storage.add_to_schedule(huey.serialize_task(self.tasks.noop.s()), due)
        with self.reading() as connection:
            (sample,) = connection.execute("SELECT id FROM schedule").fetchone()
            self.store.copy(connection, "schedule", "id", sample, delayed)
        return {"finished": 0, "delayed": delayed, "priority": 0}

    def work(self) -> None:
        from huey.bin.huey_consumer import consumer_main

        threads = str(self.arguments.slots or 1)
        sys.argv = ["huey_consumer", "-q", "-k", "thread", "-w", threads, "huey_tasks.huey"]
        consumer_main()

    def unfinished(self) -> bool:
        with self.reading() as connection:
            return connection.execute("SELECT 1 FROM task LIMIT 1").fetchone() is not None

    def finished(self) -> int | None:
        return None

    def details(self) -> dict[str, Any]:
        from importlib.metadata import version

        return {"version": version("huey")}


if __name__ == "__main__":
    main(Huey)
