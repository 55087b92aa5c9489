"""This project as a Django task backend, with its management command as the worker."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import Any

import ours
from django_program import PRIORITIES, DjangoProgram
from measuring import main


class Django(DjangoProgram):
    name = "tinyjobs (Django tasks)"
    shapes = (*DjangoProgram.shapes, "commits")
    apps = ("tinyjobs",)
    backend = "tinyjobs.TinyJobsBackend"
    distribution = "tinyjobs"
    table = ours.JOBS
    open_jobs = "status = 'queued'"
    finished_job = "status = 'success'"
    attached = ((ours.EXECUTIONS, "job_id"),)

    def options(self) -> dict[str, Any]:
        if self.on_redis:
            return {"url": self.arguments.store}
        if not self.on_postgres:
            return {}
        return {"database": "default", **({"notify": False} if self.arguments.variant == "silent" else {})}

    def enqueue_many(self, indexes: range) -> None:
        self.stamp.enqueue_many([(index,) for index in indexes])

    def load_noops(self, jobs: int) -> None:
        self.noop.enqueue_many([()] * jobs)

    def command(self) -> list[str]:
        slots = self.arguments.slots
        flag = "--async-concurrency" if self.kind == "coroutine" else "--concurrency"
        return ["tinyjobs", "worker", *([flag, str(slots)] if slots else [])]

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        if not self.on_redis:
            return super().fill(finished, delayed, priority)
        self.load_noops(finished)
        self.run_noops(finished)
        from django.utils import timezone

        due = timezone.now() + timedelta(days=99)
        for step in range(min(PRIORITIES, delayed)):
            later = self.noop.using(run_after=due, priority=priority + step)
            later.enqueue_many([()] * len(range(step, delayed, PRIORITIES)))
        return {"finished": finished, "delayed": delayed, "priority": priority}

    @cached_property
    def _app(self) -> Any:
        """The same jobs by the facade, which has the figures."""
        from tinyjobs import TinyJobs

        return TinyJobs(self.arguments.store)

    def finished(self) -> int | None:
        return self._app.stats().by_status.get("success", 0) if self.on_redis else super().finished()

    def unfinished(self) -> bool:
        if self.on_redis:
            return ours.unfinished_of(self._app.stats())
        with self.reading() as connection:
            return ours.unfinished(self.store, connection)


if __name__ == "__main__":
    main(Django)
