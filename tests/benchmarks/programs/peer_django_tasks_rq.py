"""django-tasks-rq, the task backend over django-rq, with its `rqworker` command and a worker that does not fork."""

from __future__ import annotations

from typing import Any

from django_program import DjangoProgram
from measuring import main


class DjangoTasksRQ(DjangoProgram):
    name = "django-tasks-rq"
    shapes = ("enqueue", "drain", "latency", "idle")
    apps = ("django_tasks", "django_rq", "django_tasks_rq")
    backend = "django_tasks_rq.RQBackend"
    decorator = "django_tasks.task"
    distribution = "django-tasks-rq"

    def settings(self) -> dict[str, Any]:
        return {"RQ_QUEUES": {"default": {"URL": self.arguments.store}}}

    def load_noops(self, jobs: int) -> None:
        for _ in range(jobs):
            self.noop.enqueue()

    def _queue(self) -> Any:
        import django_rq

        return django_rq.get_queue("default")

    def command(self) -> list[str]:
        kinds = ["--job-class", "django_tasks_rq.Job", "--worker-class", "rq.SimpleWorker"]
        return ["rqworker", "--verbosity", "0", *kinds]

    def unfinished(self) -> bool:
        queue = self._queue()
        return bool(queue.count or queue.started_job_registry.count)

    def finished(self) -> int | None:
        return int(self._queue().finished_job_registry.count)


if __name__ == "__main__":
    main(DjangoTasksRQ)
