"""This project as a Django task backend, with its management command as the worker."""

from __future__ import annotations

from typing import Any

import ours
from django_program import DjangoProgram
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

    def unfinished(self) -> bool:
        with self.reading() as connection:
            return ours.unfinished(self.store, connection)


if __name__ == "__main__":
    main(Django)
