"""The public engine `tinyjobs==0.7.1`, by its facade and its own worker command."""

from __future__ import annotations

from functools import partial

from facade_program import FacadeProgram
from measuring import main
from store import ids_like


class PublicTinyJobs(FacadeProgram):
    name = "tinyjobs 0.7.1"

    def prepare(self) -> None:
        self.app.counts()

    def _prepared(self, task: object, calls: list[tuple[object, ...]]) -> list[object]:
        from tinyjobs.models import JobPayload
        from tinyjobs.options import EnqueueOptions

        prepare = self.app.dispatch.prepare
        return [prepare(task.name, JobPayload(args=call, kwargs={}), EnqueueOptions()) for call in calls]

    def _send(self, task: object, calls: list[tuple[object, ...]]) -> None:
        """It has no public bulk call; this is its store's own, with the jobs prepared as its `enqueue` does."""
        jobs = self._prepared(task, calls)
        self.app.run_sync(partial(self.app.backend.enqueue_many, jobs), name="enqueue_many")

    def enqueue_many(self, indexes: range) -> None:
        self.app.counts()
        self._send(self.stamp, [(index,) for index in indexes])

    def load_noops(self, jobs: int) -> None:
        self.app.counts()
        self._send(self.noop, [()] * jobs)

    def worker_flags(self) -> list[str]:
        slots = str(self.arguments.slots or 32)
        return ["--log-level", "WARNING", "worker", "--app", "facade_tasks:app", "--concurrency", slots]

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        self.app.counts()
        self.noop.enqueue()
        self.run_noops()
        self.noop.with_options(delay=9e6, priority=priority).enqueue()
        with self.reading() as connection:
            (done,) = connection.execute("SELECT id FROM jobs WHERE status = 'success'").fetchone()
            (later,) = connection.execute("SELECT id FROM jobs WHERE status = 'queued'").fetchone()
            ids = self.store.copy(connection, "jobs", "id", done, finished)
            self.store.copy_for(connection, "executions", "job_id", done, ids)
            # Its ids carry no time, and those of the first digits could meet the finished ones'.
            self.store.copy_for(connection, "jobs", "id", later, ids_like("f" + later[1:], delayed))
        return {"finished": finished, "delayed": delayed, "priority": priority}

    def finished(self) -> int | None:
        with self.reading() as connection:
            query = "SELECT count(*) FROM jobs WHERE status = 'success'"
            return int(connection.execute(query).fetchone()[0])

    def unfinished(self) -> bool:
        with self.reading() as connection:
            query = "SELECT 1 FROM jobs WHERE status IN ('queued', 'running') AND run_at < unixepoch() LIMIT 1"
            return connection.execute(query).fetchone() is not None


if __name__ == "__main__":
    main(PublicTinyJobs)
