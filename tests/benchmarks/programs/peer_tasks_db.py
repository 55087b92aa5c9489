"""django-tasks-db with its `db_worker` command, which runs one job at a time. It has no bulk call."""

from __future__ import annotations

from django_program import DjangoProgram
from measuring import main


class TasksDb(DjangoProgram):
    name = "django-tasks-db"
    shapes = ("enqueue", "drain", "latency", "idle", "lateness")
    apps = ("django_tasks_db",)
    backend = "django_tasks_db.DatabaseBackend"
    distribution = "django-tasks-db"
    table = "django_tasks_database_dbtaskresult"
    open_jobs = "status IN ('READY', 'RUNNING')"
    finished_job = "status = 'SUCCESSFUL'"

    def command(self) -> list[str]:
        return ["db_worker", "--verbosity", "0", "--no-startup-delay"]


if __name__ == "__main__":
    main(TasksDb)
