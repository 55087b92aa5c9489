"""django-vtasks with its database backend and its `runworker` command.

It deletes a job's row when the job ends, so no finished jobs stand in its way.
"""

from __future__ import annotations

from django_program import DjangoProgram
from measuring import main


class VTasks(DjangoProgram):
    name = "django-vtasks"
    apps = ("django_vtasks", "django_vtasks.db")
    backend = "django_vtasks.backends.db.DatabaseTaskBackend"
    decorator = "django_vtasks.task"
    distribution = "django-vtasks"
    table = "db_queuedtask"
    open_jobs = "status IN ('QUEUED', 'PROCESSING')"
    finished_job = None

    def enqueue_many(self, indexes: range) -> None:
        from django.tasks import task_backends

        task_backends["default"].enqueue_many([(self.stamp, (index,), {}) for index in indexes])

    def command(self) -> list[str]:
        return ["runworker", "--concurrency", str(self.arguments.slots or 20)]


if __name__ == "__main__":
    main(VTasks)
