"""The public engine `tinyjobs==0.7.1`, by its facade and its own worker command."""

from __future__ import annotations

from functools import partial

from facade_program import FacadeProgram
from filling import copy_row, ids_like
from measuring import Workers, main


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
        with Workers(self, 1) as workers:
            workers.board.open_gate()
            workers.wait(lambda: workers.board.count() >= 1 and not self.unfinished(), "did not run the sample job")
        self.noop.with_options(delay=9e6, priority=priority).enqueue()
        with self.reading() as connection:
            (done,) = connection.execute("SELECT id FROM jobs WHERE status = 'success'").fetchone()
            (later,) = connection.execute("SELECT id FROM jobs WHERE status = 'queued'").fetchone()
            ids = ids_like(done, finished)
            copy_row(connection, "jobs", "id", done, ids)
            copy_row(connection, "executions", "job_id", done, ids)
            copy_row(connection, "jobs", "id", later, ids_like("f" + later[1:], delayed))
        return {"finished": finished, "delayed": delayed, "priority": priority}

    def unfinished(self) -> bool:
        with self.reading() as connection:
            query = "SELECT 1 FROM jobs WHERE status IN ('queued', 'running') AND run_at < unixepoch() LIMIT 1"
            return connection.execute(query).fetchone() is not None


if __name__ == "__main__":
    main(PublicTinyJobs)
