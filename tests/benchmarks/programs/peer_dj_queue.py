"""dj-queue with its `dj_queue` command; its slots are threads of the one worker process that its supervisor forks.

Its tables get the autovacuum settings that its own command prints for them.
"""

from __future__ import annotations

import io
from typing import Any

from django_program import PRIORITIES, DjangoProgram
from measuring import main


class DjQueue(DjangoProgram):
    name = "dj-queue"
    apps = ("dj_queue",)
    backend = "dj_queue.backend.DjQueueBackend"
    distribution = "dj-queue"
    table = "dj_queue_jobs"
    open_jobs = "finished_at IS NULL"
    finished_job = "finished_at IS NOT NULL"

    def options(self) -> dict[str, Any]:
        return {"workers": [{"threads": self.arguments.slots or 3}]}

    def settings(self) -> dict[str, Any]:
        return {"DATABASE_ROUTERS": ["dj_queue.routers.DjQueueRouter"]}

    def prepare(self) -> None:
        from django.core.management import call_command

        super().prepare()
        told = io.StringIO()
        call_command("dj_queue_postgres_autovacuum", stdout=told)
        with self.reading() as connection:
            connection.execute(told.getvalue())

    def enqueue_many(self, indexes: range) -> None:
        self.stamp.get_backend().enqueue_all([(self.stamp, [index], {}) for index in indexes])

    def load_noops(self, jobs: int) -> None:
        self.noop.get_backend().enqueue_all([(self.noop, [], {}) for _ in range(jobs)])

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        """A delayed job has a row of its own beside the job's, which holds the priority it is let in by."""
        from datetime import timedelta

        from django.utils import timezone

        done = self.noop.enqueue().id
        self.run_noops()
        self._copy(done, finished, attached=False)
        late = self.noop.using(run_after=timezone.now() + timedelta(days=99), priority=priority).enqueue().id
        spread = {"priority": f"priority + mod(n, {PRIORITIES})"}
        with self.reading() as connection:
            row_id = self.store.sample(connection, self.table, "id", late)
            ids = self.store.copy(connection, self.table, "id", row_id, delayed, spread)
            self.store.copy_for(connection, "dj_queue_scheduled_executions", "job_id", row_id, ids, spread)
        return {"finished": finished, "delayed": delayed, "priority": priority}

    def unfinished(self) -> bool:
        query = (
            "SELECT 1 FROM dj_queue_jobs WHERE finished_at IS NULL"
            " AND (scheduled_at IS NULL OR scheduled_at <= now()) LIMIT 1"
        )
        with self.reading() as connection:
            return connection.execute(query).fetchone() is not None

    def command(self) -> list[str]:
        return ["dj_queue"]


if __name__ == "__main__":
    main(DjQueue)
