"""What `manage.py tinyjobs` works on: one alias of `TASKS`, the project's tasks, and the store they are in.

Commands that look or steer go through Django's own connection, as the rest of the project does; a worker opens
connections of its own.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import django
from django.core.checks import CheckMessage
from django.db import connections
from django.tasks import Task, task_backends
from django.tasks.exceptions import InvalidTaskBackend

from tinyjobs.backends.base import Backend
from tinyjobs.cli.imports import Failures, import_all
from tinyjobs.cli.target import own_versions
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.job import Job
from tinyjobs.core.retention import Retention
from tinyjobs.core.schedules import Timetable
from tinyjobs.core.url import shown_url
from tinyjobs.core.watching import Finding
from tinyjobs.operations.metrics import Metrics
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.standalone import StandaloneScheduler
from tinyjobs.runtime.worker import Worker
from tinyjobs.taskbackend.backend import TinyJobsBackend, backend_of, our_backends
from tinyjobs.taskbackend.checking import check_health, check_layout
from tinyjobs.taskbackend.finished import tell_enqueued
from tinyjobs.taskbackend.resolver import DjangoCatalogue
from tinyjobs.taskbackend.running import TaskCall
from tinyjobs.taskbackend.shared import Shared
from tinyjobs.taskbackend.working import open_scheduler, open_worker

# The checks that somebody who starts a worker should not have to run `check` for.
_WORTH_A_LINE = frozenset({"tinyjobs.W001"})


class AliasTarget:
    """See `tinyjobs.cli.target.Target`."""

    def __init__(self, alias: str) -> None:
        self._backend, self._shared = _usable(alias)
        self._settings = self._shared.settings
        self._worker = ExitStack()
        self.name = f"TASKS[{alias!r}]"
        self.where = self._described()
        self.worker_defaults: Mapping[str, Any] = self._settings.worker

    @property
    def catalogue(self) -> DjangoCatalogue:
        """See `Target.catalogue`."""
        return self._shared.catalogue

    @property
    def timetable(self) -> Timetable:
        """See `Target.timetable`."""
        return self._shared.timetable

    @property
    def codecs(self) -> CodecRegistry:
        """See `Target.codecs`."""
        return self._shared.codecs

    @property
    def retention(self) -> Retention:
        """See `Target.retention`."""
        return self._settings.retention

    @property
    def metrics(self) -> Metrics:
        """See `Target.metrics`."""
        return self._shared.metrics

    @property
    def store(self) -> Backend:
        """See `Target.store`."""
        return self._shared.engine_store

    def discover(self, patterns: Sequence[str]) -> Failures:
        """Import the tasks modules of the installed apps, and those of the patterns."""
        failures: Failures = self.catalogue.discover()
        modules, more = import_all(patterns)
        for module in modules:
            for value in list(vars(module).values()):
                if isinstance(value, Task):
                    self.catalogue.find(value.module_path)
        failures |= more
        self._shared.timetable.unimported = failures
        problems = [*self.catalogue.check_settings(), *self._shared.timetable.problems()]
        if problems and not failures:
            raise ConfigurationError(" ".join(problems))
        return failures

    def check_layout(self) -> None:
        """Check the tables of a Django database, which `migrate` makes; those of another store are made if need be."""
        check_layout(self._shared)

    def check(self, *, max_wait: float | None, store_warnings: bool) -> list[Finding]:
        """See `Target.check`."""
        return check_health(self._shared, max_wait=max_wait, store_warnings=store_warnings, with_layout=True)

    def declared_queues(self) -> Collection[str]:
        """The queues of the tasks, and those of `QUEUES`."""
        specs = [self.catalogue.find(name) for name in self.catalogue.names()]
        calls = [spec.call for spec in specs if spec is not None]
        return {call.task.queue_name for call in calls if isinstance(call, TaskCall)} | self._backend.queues

    def versions(self) -> Sequence[str]:
        """See `Target.versions`."""
        return [*own_versions(), f"Django {django.get_version()}"]

    def announce(self, job: Job) -> None:
        """See `Target.announce`: `task_enqueued`."""
        tell_enqueued(self._shared, job)

    def warnings(self) -> Sequence[str]:
        """What the system checks say of the store, as far as it bears on a worker."""
        return [f"{found.msg} {found.hint or ''}".strip() for found in self._backend.check() if _is_worth_a_line(found)]

    def worker(self, settings: WorkerSettings) -> Worker:
        """See `Target.worker`."""
        self._leave_this_thread()
        return self._worker.enter_context(open_worker(self._backend.alias, settings))

    def scheduler(self, grace: float) -> StandaloneScheduler:
        """See `Target.scheduler`."""
        self._leave_this_thread()
        return self._worker.enter_context(open_scheduler(self._backend.alias, grace=grace))

    def _leave_this_thread(self) -> None:
        """Close what this thread will not need again for as long as something runs; refuse an open transaction."""
        database = self._settings.database
        if database is not None and connections[database].in_atomic_block:
            raise ConfigurationError(
                f"This thread has a transaction open on {self._settings.where}, as every TestCase has. A worker, whose "
                f"connections are its own, cannot see the jobs in it and would wait for its end. "
                f"tinyjobs.testing.drain() runs them inside it; or use a TransactionTestCase."
            )
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()  # this thread will not need it again for as long as the worker runs

    async def close_worker(self) -> None:
        """Done by `close`, off the event loop."""

    def close(self) -> None:
        """Let go of the worker. Django's connections stay Django's."""
        self._worker.close()

    def _described(self) -> str:
        where = self._settings.where
        if self._settings.database is None:
            return where
        connection = connections[self._settings.database]
        place = connection.settings_dict
        host = f" on {place['HOST']}" if place.get("HOST") else ""
        return f"{where}, {connection.display_name} {place['NAME']}{host}"


def default_alias() -> str:
    """The alias that is meant when none is given: `default` if it is one of ours, else the only one that is."""
    ours = list(our_backends())
    if len(ours) == 1:
        return ours[0]
    if "default" in ours or not ours:
        return "default"
    raise ConfigurationError(f"Several aliases of TASKS use tinyjobs: {', '.join(ours)}. Name one with --backend.")


def check_alias(alias: str) -> None:
    """Raise `ConfigurationError` for a name that is not in `TASKS`. What the settings say of one is not looked at."""
    if alias not in task_backends.settings:
        known = ", ".join(sorted(task_backends.settings))
        # It may be a URL that somebody mistyped, with its password.
        raise ConfigurationError(f"TASKS has no {shown_url(alias)!r}. There are: {known}.")


def _usable(alias: str) -> tuple[TinyJobsBackend, Shared]:
    check_alias(alias)
    try:
        backend = backend_of(alias)
        return backend, backend.shared
    except InvalidTaskBackend as error:
        raise ConfigurationError(str(error)) from error


def _is_worth_a_line(found: CheckMessage) -> bool:
    return found.id in _WORTH_A_LINE and not found.is_silenced()
