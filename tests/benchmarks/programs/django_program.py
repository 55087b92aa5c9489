"""What the Django programs share: one project, sending by `task.enqueue()`, the worker by its management command."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, ClassVar

from measuring import Program

# Delayed jobs of a filled Postgres table stand on so many priorities.
PRIORITIES = 50


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

    def options(self) -> dict[str, Any]:
        """The OPTIONS of the task backend."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Settings of the project that this queue asks for."""
        return {}

    def load(self) -> None:
        os.environ.update(
            DJANGO_SETTINGS_MODULE="django_settings",
            BENCH_APPS=",".join(self.apps),
            BENCH_BACKEND=self.backend,
            BENCH_TASK=self.decorator,
            BENCH_OPTIONS=json.dumps(self.options()),
            BENCH_SETTINGS=json.dumps(self.settings()),
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

    def sending(self) -> AbstractContextManager[Any]:
        from django.db import transaction

        return transaction.atomic() if self.arguments.variant == "atomic" else nullcontext()

    def commit_one(self, index: int) -> None:
        from django.db import transaction

        with transaction.atomic():
            self.stamp.enqueue(index)

    def enqueue_delayed(self, index: int, delay: float) -> None:
        from django.utils import timezone

        self.stamp.using(run_after=timezone.now() + timedelta(seconds=delay)).enqueue(index)

    def load_noops(self, jobs: int) -> None:
        """The row that one `enqueue` wrote, copied."""
        sample = self.noop.enqueue().id
        with self.reading() as connection:
            row_id = self.store.sample(connection, self.table, self.id_column, sample)
            self.store.copy(connection, self.table, self.id_column, row_id, jobs - 1)

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        from django.utils import timezone

        filled = {"finished": 0, "delayed": delayed, "priority": priority}
        if self.finished_job and finished:
            done = self.noop.enqueue().id
            self.run_noops()
            self._copy(done, finished, attached=True)
            filled["finished"] = finished
        later = self.noop.using(run_after=timezone.now() + timedelta(days=99), priority=priority)
        spread = {"priority": f"priority + mod(n, {PRIORITIES})"} if self.on_postgres else {}
        self._copy(later.enqueue().id, delayed, attached=False, changed=spread)
        return filled

    def _copy(self, sample: str, count: int, *, attached: bool, changed: dict[str, str] | None = None) -> None:
        with self.reading() as connection:
            row_id = self.store.sample(connection, self.table, self.id_column, sample)
            ids = self.store.copy(connection, self.table, self.id_column, row_id, count, changed)
            for table, column in self.attached if attached else ():
                self.store.copy_for(connection, table, column, row_id, ids)

    def unfinished(self) -> bool:
        due = f"(run_after IS NULL OR run_after < {self.store.now} OR run_after > '9000-01-01')"
        with self.reading() as connection:
            query = f"SELECT 1 FROM {self.table} WHERE {self.open_jobs} AND {due} LIMIT 1"
            return connection.execute(query).fetchone() is not None

    def finished(self) -> int | None:
        if self.finished_job is None:
            return None
        with self.reading() as connection:
            query = f"SELECT count(*) FROM {self.table} WHERE {self.finished_job}"
            return int(connection.execute(query).fetchone()[0])

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
