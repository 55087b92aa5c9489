"""For a project's own tests: run what was sent, look at what was sent, and stand-ins for tests that run no jobs.

`drain()` runs due jobs on the test's own connections, inside its transaction and in its thread, so that a `TestCase`
sees what the jobs did and rolls it back. Handed on by `tinyjobs.testing`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.tasks.backends import dummy, immediate
from django.tasks.backends.base import BaseTaskBackend
from django.test import override_settings

from tinyjobs.core.inline import finish
from tinyjobs.core.status import JobStatus
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.deferred import send_pending
from tinyjobs.taskbackend.results import JobResult, read_executions, result_of
from tinyjobs.taskbackend.sending import check_arguments
from tinyjobs.taskbackend.task import Items, Task, settle_run_after, split_items
from tinyjobs.taskbackend.typed import AnyResult, AnyTask
from tinyjobs.taskbackend.working import drain_here

__all__ = [
    "DummyBackend",
    "ImmediateBackend",
    "adrain",
    "assert_enqueued",
    "assert_not_enqueued",
    "drain",
    "eager",
    "enqueued_jobs",
]

_WAITING = (JobStatus.QUEUED, JobStatus.HELD, JobStatus.WAITING)
_PAGE = 500


def drain(alias: str = "default", *, queues: Sequence[str] = (), limit: int | None = None) -> int:
    """Run due jobs until none is left, or `limit` were run; how many. What a job sends for now is run too.

    Raises `UnknownTaskError` for a job that names no task of the installed apps.
    """
    return drain_here(alias, queues=queues, limit=limit)


async def adrain(alias: str = "default", *, queues: Sequence[str] = (), limit: int | None = None) -> int:
    """See `drain`; for `async def` tests. Runs in the thread that holds the test's connections."""
    return await sync_to_async(drain_here, thread_sensitive=True)(alias, queues=queues, limit=limit)


class eager(override_settings):
    """While it is on, each job runs before its `enqueue()` returns. For a block, a test function or a TestCase."""

    def __init__(self, alias: str = "default") -> None:
        super().__init__()
        self._alias = alias

    def enable(self) -> None:
        """Turn it on."""
        entry: dict[str, Any] = settings.TASKS[self._alias]
        options: dict[str, Any] = {**entry.get("OPTIONS", {}), "eager": True}
        tasks: dict[str, Any] = {**settings.TASKS, self._alias: {**entry, "OPTIONS": options}}
        self.options = {"TASKS": tasks}
        super().enable()


def enqueued_jobs(
    task: AnyTask | None = None, *, alias: str = "default", queue_name: str | None = None
) -> list[JobResult]:
    """The jobs that wait to be run, oldest first, as results; of one task or queue if named.

    Jobs that wait for the test's transaction to commit are sent first.
    """
    send_pending()
    shared = backend_of(alias).shared
    path = None if task is None else task.module_path
    found: list[JobResult] = []
    cursor = None
    while True:
        page = finish(shared.store.list(task=path, queue=queue_name, limit=_PAGE, cursor=cursor))
        for listed in page.jobs:
            job = finish(shared.store.get(listed.id)) if listed.status in _WAITING else None
            if job is not None:
                found.append(result_of(shared, job, read_executions(shared, job)))
        if page.cursor is None:
            return found[::-1]
        cursor = page.cursor


def assert_enqueued(
    task: AnyTask,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    times: int | None = None,
    queue_name: str | None = None,
    priority: int | None = None,
    run_after: datetime | None = None,
    key: str | None = None,
    alias: str = "default",
) -> JobResult:
    """Fail unless a job of that task waits that is as described (`times` of them, if given); the newest one.

    What is not given is not compared.
    """
    wanted: dict[str, Any] = {
        "args": None if args is None else list(args),
        "kwargs": None if kwargs is None else dict(kwargs),
        "queue_name": queue_name,
        "priority": priority,
        "run_after": run_after,
        "key": key,
    }
    waiting = enqueued_jobs(task, alias=alias)
    matching = [result for result in waiting if _matches(result, wanted)]
    if matching and times in (None, len(matching)):
        return matching[-1]
    described = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value is not None)
    asked = "a job" if times is None else "one job" if times == 1 else f"{times} jobs"
    raise AssertionError(
        f"{asked} of {task.module_path}({described}) should wait; {len(matching)} do. {_listed(waiting)}"
    )


def assert_not_enqueued(task: AnyTask | None = None, *, alias: str = "default") -> None:
    """Fail if a job waits, of that task or of any."""
    waiting = enqueued_jobs(task, alias=alias)
    if waiting:
        what = "no job" if task is None else f"no job of {task.module_path}"
        raise AssertionError(f"{what} should wait. {_listed(waiting)}")


def _matches(result: JobResult, wanted: Mapping[str, Any]) -> bool:
    sent = {"args": result.args, "kwargs": result.kwargs, "key": getattr(result.task, "key", None)}
    sent |= {name: getattr(result.task, name) for name in ("queue_name", "priority", "run_after")}
    return all(value is None or sent[name] == value for name, value in wanted.items())


def _listed(waiting: Sequence[JobResult]) -> str:
    if not waiting:
        return "None waits."
    shown = [f"{result.task.module_path}(args={result.args!r}, kwargs={result.kwargs!r})" for result in waiting[:10]]
    return f"Waiting: {'; '.join(shown)}{' …' if len(waiting) > 10 else ''}"


class _Tolerant(BaseTaskBackend):
    """What makes one of Django's test backends take our tasks as the real one does: options, arguments, bulk."""

    task_class = Task

    def validate_task(self, task: AnyTask) -> None:
        """Django's rules, with a timedelta for `run_after` allowed as well."""
        settle_run_after(task)
        super().validate_task(task)

    def enqueue(  # type: ignore[override]
        self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> AnyResult:
        """Send a job, its arguments held against the function's signature first."""
        self.validate_task(task)
        check_arguments(task, args, kwargs)
        result: AnyResult = super().enqueue(task, args, kwargs)  # type: ignore[arg-type]
        return result

    def enqueue_many(self, task: AnyTask, items: Items) -> list[AnyResult]:
        """Send a job for each item; what would be refused is refused before the first is sent."""
        calls = split_items(items)
        for args, kwargs in calls:
            check_arguments(task, args, kwargs)
        return [self.enqueue(task, args, kwargs) for args, kwargs in calls]

    async def aenqueue_many(self, task: AnyTask, items: Items) -> list[AnyResult]:
        """See `enqueue_many`."""
        return await sync_to_async(self.enqueue_many, thread_sensitive=True)(task, items)


class ImmediateBackend(_Tolerant, immediate.ImmediateBackend):  # type: ignore[misc]
    """Django's immediate backend, taking the options of our tasks."""


class DummyBackend(_Tolerant, dummy.DummyBackend):  # type: ignore[misc]
    """Django's dummy backend, taking the options of our tasks."""
