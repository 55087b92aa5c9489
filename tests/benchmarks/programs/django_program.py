"""What the Django programs share: one project, sending by `task.enqueue()`, the worker by its management command."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, ClassVar

from filling import copy_row, ids_like
from measuring import Program, Workers


class DjangoProgram(Program):
    apps: ClassVar[tuple[str, ...]]
    backend: ClassVar[str]
    decorator: ClassVar[str] = "django.tasks.task"
    distribution: ClassVar[str]
    table: ClassVar[str]
    id_column: ClassVar[str] = "id"
    # SQL conditions over the table.
    open_jobs: ClassVar[str]
    finished_job: ClassVar[str | None]
    # Tables whose rows belong to a finished job: their name and the column that holds its id.
    attached: ClassVar[tuple[tuple[str, str], ...]] = ()

    def load(self) -> None:
        os.environ.update(
            DJANGO_SETTINGS_MODULE="django_settings",
            BENCH_APPS=",".join(self.apps),
            BENCH_BACKEND=self.backend,
            BENCH_TASK=self.decorator,
        )
        import django

        django.setup()
        from benchapp import tasks

        self.noop = getattr(tasks, f"noop_{self.kind}")
        self.stamp = getattr(tasks, f"stamp_{self.kind}")

    def prepare(self) -> None:
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def enqueue(self, index: int) -> None:
        self.stamp.enqueue(index)

    def enqueue_delayed(self, index: int, delay: float) -> None:
        from django.utils import timezone

        self.stamp.using(run_after=timezone.now() + timedelta(seconds=delay)).enqueue(index)

    def load_noops(self, jobs: int) -> None:
        """The row that one `enqueue` wrote, copied."""
        self.noop.enqueue()
        with self.reading() as connection:
            query = f"SELECT {self.id_column} FROM {self.table} ORDER BY rowid DESC LIMIT 1"
            (sample,) = connection.execute(query).fetchone()
            copy_row(connection, self.table, self.id_column, sample, ids_like(sample, jobs - 1))

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        from django.utils import timezone

        filled = {"finished": 0, "delayed": delayed, "priority": priority}
        if self.finished_job and finished:
            self.noop.enqueue()
            with Workers(self, 1) as workers:
                workers.board.open_gate()
                workers.wait(lambda: workers.board.count() >= 1 and not self.unfinished(), "did not run the sample job")
            self._copy(self.finished_job, finished, attached=True)
            filled["finished"] = finished
        later = self.noop.using(run_after=timezone.now() + timedelta(days=99), priority=priority)
        later.enqueue()
        self._copy(self.open_jobs, delayed, attached=False)
        return filled

    def _copy(self, condition: str, count: int, *, attached: bool) -> None:
        with self.reading() as connection:
            query = f"SELECT {self.id_column} FROM {self.table} WHERE {condition} LIMIT 1"
            (sample,) = connection.execute(query).fetchone()
            ids = ids_like(sample, count)
            copy_row(connection, self.table, self.id_column, sample, ids)
            for table, column in self.attached if attached else ():
                copy_row(connection, table, column, sample, ids)

    def unfinished(self) -> bool:
        with self.reading() as connection:
            due = "(run_after IS NULL OR run_after < datetime('now') OR run_after > '9000-01-01')"
            query = f"SELECT 1 FROM {self.table} WHERE {self.open_jobs} AND {due} LIMIT 1"
            return connection.execute(query).fetchone() is not None

    def command(self) -> list[str]:
        raise NotImplementedError

    def work(self) -> None:
        from django.core.management import execute_from_command_line

        execute_from_command_line(["manage.py", *self.command()])

    def details(self) -> dict[str, Any]:
        from importlib.metadata import PackageNotFoundError, version

        import django

        try:
            own = version(self.distribution)
        except PackageNotFoundError:
            own = "working tree"
        return {"version": own, "django": django.get_version()}
