"""The task backend: what `TASKS[alias]["BACKEND"]` names.

An enqueue writes through Django's own connection, so the job is part of whatever transaction the caller has open, and
of none when there is none: one statement that commits by itself. Instances are made per thread and hold nothing; what
they share is in `shared`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.core.checks import CheckMessage
from django.db.backends.base.base import BaseDatabaseWrapper
from django.tasks import TaskResultStatus, task_backends
from django.tasks.base import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY
from django.tasks.exceptions import InvalidTask
from django.utils import timezone

from tinyjobs.core.errors import ConfigurationError, TinyJobsError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job
from tinyjobs.core.options import check_queue
from tinyjobs.operations.telemetry import sending
from tinyjobs.taskbackend import signals
from tinyjobs.taskbackend.deferred import PendingSend, pending_holder, waits_for_commit
from tinyjobs.taskbackend.draining import run_now
from tinyjobs.taskbackend.results import (
    JobResult,
    moment,
    new_result,
    read_executions,
    read_result,
    result_of,
    stored_task,
)
from tinyjobs.taskbackend.scheduling import Scheduling
from tinyjobs.taskbackend.sending import Draft
from tinyjobs.taskbackend.settings import BackendSettings
from tinyjobs.taskbackend.shared import Shared, parsed_settings, usable
from tinyjobs.taskbackend.task import Items, Task, check_job_options, options_of, settle_run_after, split_items
from tinyjobs.taskbackend.typed import AnyTask

# Functions that Django's rules were asked about once. They live at module level, as long as the process.
_valid_functions: set[tuple[Any, bool]] = set()


class TinyJobsBackend(Scheduling):
    """Durable jobs behind `django.tasks`."""

    task_class = Task
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, dict(params))
        self.params = params
        self._usable: Shared | None = None

    @property
    def shared(self) -> Shared:
        """What all instances of this alias share. Raises `InvalidTaskBackend` when the settings are wrong."""
        if self._usable is None or self._usable.is_stale:
            self._usable = usable(self.alias, self.params)
        return self._usable

    # --- validation ---------------------------------------------------------------------------------------------

    def validate_task(self, task: AnyTask) -> None:
        """Raise `InvalidTask` for a task that this backend cannot run, in Django's words where Django has them."""
        settle_run_after(task)
        _check_names(task)
        if not self._is_known_to_be_valid(task):
            super().validate_task(task)
            _valid_functions.add((task.func, task.takes_context))
        if isinstance(task, Task):
            try:
                options = options_of(task)
                check_job_options(task)
                if options.codec != "json":
                    self.shared.codecs.require(options.codec, f"the task {task.module_path}")
            except TinyJobsError as error:
                raise InvalidTask(str(error)) from error

    def _is_known_to_be_valid(self, task: AnyTask) -> bool:
        # The same rules as Django's, without asking again what cannot change about a function.
        return (
            (task.func, task.takes_context) in _valid_functions
            and self.supports_priority
            and type(task.priority) is int
            and TASK_MIN_PRIORITY <= task.priority <= TASK_MAX_PRIORITY
            and (self.supports_async_task or not iscoroutinefunction(task.func))
            and (not self.queues or task.queue_name in self.queues)
            and (task.run_after is None or (self.supports_defer and _is_right_kind(task.run_after)))
        )

    # --- sending ------------------------------------------------------------------------------------------------

    def enqueue(  # type: ignore[override]
        self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> JobResult:
        """Keep a job in the caller's transaction, or give back the active job that holds the task's key."""
        self.validate_task(task)
        return self._send(*Draft(self.shared, task).one(args, kwargs))

    def _send(self, job: Job, result: JobResult) -> JobResult:
        shared = self.shared
        waiting = waits_for_commit(shared)
        with sending([job]) as (job,):
            if waiting is not None:
                return self._at_commit(waiting, [(job, result)])[0]
            kept = finish(shared.store.enqueue(job))
        if kept.existing:
            return self._existing(kept)
        signals.send(signals.task_enqueued, type(self), result)
        return self._run_eagerly([result])[0] if shared.settings.eager else result

    def enqueue_many(self, task: AnyTask, items: Items) -> list[JobResult]:
        """Keep a job for each item, all or none, in their order."""
        self.validate_task(task)
        shared = self.shared
        drafts = Draft(shared, task).many(split_items(items))
        waiting = waits_for_commit(shared)
        with sending([job for job, _ in drafts]) as jobs:
            if waiting is not None:
                return self._at_commit(waiting, [(job, result) for job, (_, result) in zip(jobs, drafts, strict=True)])
            kept = finish(shared.store.enqueue_many(jobs))
        results = [
            self._existing(job) if job.existing else result for job, (_, result) in zip(kept, drafts, strict=True)
        ]
        self._announce(result for result in results if not result.existing)
        return self._run_eagerly(results) if shared.settings.eager else results

    def _at_commit(self, connection: BaseDatabaseWrapper, drafts: Sequence[tuple[Job, JobResult]]) -> list[JobResult]:
        """Hand out the results now and send at the commit. Who holds a key by then is looked up now as well."""
        store = self.shared.store
        results: list[JobResult] = []
        first_of: dict[str, JobResult] = {}
        jobs: dict[str, Job] = {}
        for job, result in drafts:
            if job.key is not None and job.key not in first_of:
                waiting, holder = pending_holder(connection, self.shared, job.key), finish(store.holder(job.key))
                if holder is not None:
                    first_of[job.key] = self._existing(holder)
                elif waiting is not None:
                    first_of[job.key] = replace(waiting, existing=True)
            first = result if job.key is None else first_of.setdefault(job.key, result)
            if first is result:
                jobs[job.id] = job
            results.append(first if first is result or first.existing else replace(first, existing=True))
        told = {result.id: result for result in results if not result.existing}
        if jobs:
            pending = PendingSend(
                self.shared, list(jobs.values()), told, lambda kept: self._announce(told[job.id] for job in kept)
            )
            pending.register(connection)
        return results

    def _run_eagerly(self, results: Sequence[JobResult]) -> list[JobResult]:
        """Run each job that was just sent, and no other; one that is not due stays queued."""
        for result in results:
            if not result.existing:
                run_now(self.shared, result.id)
        return [result if result.existing else read_result(self.shared, result.id) for result in results]

    def _existing(self, job: Job) -> JobResult:
        return result_of(self.shared, replace(job, existing=True), read_executions(self.shared, job))

    def _announce(self, results: Iterable[JobResult]) -> None:
        if signals.is_heard(signals.task_enqueued) or signals.is_logged(signals.task_enqueued):
            for result in results:
                signals.send(signals.task_enqueued, type(self), result)

    async def aenqueue_many(self, task: AnyTask, items: Items) -> list[JobResult]:
        """See `enqueue_many`; runs in the thread that holds the caller's connections."""
        return await sync_to_async(self.enqueue_many, thread_sensitive=True)(task=task, items=items)

    # --- reading ------------------------------------------------------------------------------------------------

    def get_result(self, result_id: str) -> JobResult:
        """The result as the store, never a replica of it, has it now."""
        return read_result(self.shared, result_id)

    def running_result(self, job: Job, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JobResult:
        """The result of a job whose attempt has just begun; reads only when there were attempts before it."""
        shared = self.shared
        if job.claims > 1:
            return result_of(shared, job, read_executions(shared, job))
        sent_at = moment(job.created_at)
        result = new_result(job.id, sent_at, stored_task(shared, job), self.alias, list(args), dict(kwargs))
        started = moment(job.started_at or job.created_at)
        for name, value in (
            ("status", TaskResultStatus.RUNNING),
            ("started_at", started),
            ("last_attempted_at", started),
            ("worker_ids", [job.worker_id or ""]),
            ("scheduled_for", None if job.scheduled_for is None else moment(job.scheduled_for)),
        ):
            object.__setattr__(result, name, value)
        return result

    # --- checks -------------------------------------------------------------------------------------------------

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """What the check framework is told about this alias."""
        # Brings in what migrations need, which a process that only sends jobs can do without.
        from tinyjobs.taskbackend.aliaschecks import check_alias

        return check_alias(self.alias, self.params, our_settings())


def our_backends() -> dict[str, TinyJobsBackend]:
    """Our task backends by their alias. One that cannot be made is left out: the check of its alias says why."""
    found: dict[str, TinyJobsBackend] = {}
    for alias in task_backends:
        try:
            backend = task_backends[alias]
        except Exception:  # whatever a backend of somebody else's may raise
            continue
        if isinstance(backend, TinyJobsBackend):
            found[alias] = backend
    return found


def our_settings() -> list[BackendSettings]:
    """The settings of each alias of ours, as far as they are right."""
    found = [parsed_settings(alias, backend.params) for alias, backend in our_backends().items()]
    return [settings for settings in found if isinstance(settings, BackendSettings)]


def backend_of(alias: str) -> TinyJobsBackend:
    """The task backend of an alias; raises `ConfigurationError` when it is none of ours."""
    backend = task_backends[alias]
    if not isinstance(backend, TinyJobsBackend):
        raise ConfigurationError(
            f"TASKS[{alias!r}] is {type(backend).__module__}.{type(backend).__qualname__}, not a backend of tinyjobs. "
            f"Those are: {', '.join(our_backends()) or 'none'}."
        )
    return backend


def _check_names(task: AnyTask) -> None:
    """What Django lets pass and no store could keep, or no command line name."""
    priority: object = task.priority
    if type(priority) is not int and (isinstance(priority, bool) or not isinstance(priority, int | float)):
        raise InvalidTask(f"priority must be a whole number between {TASK_MIN_PRIORITY} and {TASK_MAX_PRIORITY}.")
    queue: object = task.queue_name
    complaint = _queue_complaint(queue) if isinstance(queue, str) else f"{queue!r} is no name of a queue."
    if complaint is not None:
        raise InvalidTask(complaint)


@lru_cache(1_024)
def _queue_complaint(name: str) -> str | None:
    try:
        check_queue(name, "queue_name")
    except ConfigurationError as error:
        return str(error)
    return None


def _is_right_kind(run_after: Any) -> bool:
    return not django_settings.USE_TZ or timezone.is_aware(run_after)
