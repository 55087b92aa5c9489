"""From what the store keeps to Django's `TaskResult`, and the task that a stored job names.

Django knows four statuses: a job that waits to run again reads READY, a cancelled one and one whose worker vanished
read FAILED, with an error that says so. Nothing here writes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.tasks import TaskResultStatus
from django.tasks.base import TaskError
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist

from tinyjobs.core.errors import ConfigurationError, SerializationError
from tinyjobs.core.ids import is_job_id
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Execution, Job
from tinyjobs.core.options import check_run_at
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import EXPIRED
from tinyjobs.taskbackend.shared import Shared
from tinyjobs.taskbackend.task import Task
from tinyjobs.taskbackend.typed import AnyTask, ResultBase

_STATUSES = {
    JobStatus.QUEUED: TaskResultStatus.READY,
    JobStatus.HELD: TaskResultStatus.READY,
    JobStatus.WAITING: TaskResultStatus.READY,
    JobStatus.RUNNING: TaskResultStatus.RUNNING,
    JobStatus.SUCCESS: TaskResultStatus.SUCCESSFUL,
    JobStatus.FAILED: TaskResultStatus.FAILED,
    JobStatus.CANCELLED: TaskResultStatus.FAILED,
}
_RUN_AFTER = "_run_after"
_CANCELLED = TaskError(
    exception_class_path="tinyjobs.core.errors.JobCancelled",
    traceback="tinyjobs.core.errors.JobCancelled: the job was cancelled before it could end by itself\n",
)
_EXPIRED = TaskError(
    exception_class_path="tinyjobs.core.errors.JobExpired",
    traceback=f"tinyjobs.core.errors.JobExpired: {EXPIRED}\n",
)
# Seconds by which the clocks of sender and store may differ before an expiry reads as one of the job's own.
_SLACK = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult(ResultBase):  # type: ignore[misc]  # the stubs leave out that it is frozen
    """Django's result of a job. `existing` says that an enqueue gave back the active job that held its key.

    `scheduled_for` is the instant that the job's schedule meant; None for a job that no schedule made.
    """

    existing: bool = field(default=False, compare=False)
    scheduled_for: datetime | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        # Not normalised again, as Django's own class does: arguments were when they were stored, and rich ones are
        # not to be.
        return


def new_result(
    job_id: str, enqueued_at: datetime, task: AnyTask, alias: str, args: list[Any], kwargs: dict[str, Any]
) -> JobResult:
    """The result of a job that was just sent."""
    return JobResult(
        task=task,
        id=job_id,
        status=TaskResultStatus.READY,
        enqueued_at=enqueued_at,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def read_result(shared: Shared, result_id: object) -> JobResult:
    """The result of a stored job. Raises `TaskResultDoesNotExist`, or `UnknownTaskError` when its code is gone."""
    job_id = str(result_id)
    # What cannot be an id is not asked for: some stores would rather fail than look for it.
    job = finish(shared.store.get(job_id)) if is_job_id(job_id) else None
    if job is None:
        raise TaskResultDoesNotExist(result_id)
    return result_of(shared, job, read_executions(shared, job))


def read_executions(shared: Shared, job: Job) -> list[Execution]:
    """The attempts of a job; asks nothing about one that no worker ever took."""
    return finish(shared.store.executions(job.id)) if job.claims else []


def result_of(shared: Shared, job: Job, executions: Sequence[Execution]) -> JobResult:
    """The result of a job and its attempts."""
    args, kwargs = _arguments(shared, job)
    result = JobResult(
        task=stored_task(shared, job),
        id=job.id,
        status=status_of(job),
        enqueued_at=moment(job.created_at),
        started_at=moment(executions[0].started_at) if executions else None,
        finished_at=None if job.finished_at is None else moment(job.finished_at),
        last_attempted_at=moment(executions[-1].started_at) if executions else None,
        args=list(args),
        kwargs=kwargs,
        backend=shared.settings.alias,
        errors=_errors(job, executions),
        worker_ids=[execution.worker_id for execution in executions],
        existing=job.existing,
        scheduled_for=None if job.scheduled_for is None else moment(job.scheduled_for),
    )
    if job.status is JobStatus.SUCCESS and job.result is not None:
        value = shared.codecs.get(job.codec).decode(job.result)
        object.__setattr__(result, "_return_value", value)
    return result


def status_of(job: Job) -> TaskResultStatus:
    """Django's word for where a job stands."""
    return _STATUSES[job.status]


def stored_task(shared: Shared, job: Job) -> AnyTask:
    """The task as it was sent: the declared one with what is kept with the job.

    It was validated when it was sent, and is not validated again: a queue since dropped from `QUEUES` still reads.
    """
    declared = shared.catalogue.declared(job.task)
    changes: dict[str, Any] = {
        "backend": shared.settings.alias,
        "queue_name": job.queue,
        "priority": job.priority,
        "run_after": run_after_of(job),
    }
    if isinstance(declared, Task):
        changes["key"] = job.key
        usual = shared.settings.tasks.get(job.task, {}).get("expires", declared.expires)
        if job.expires_at is not None and not (usual and abs(job.expires_at - job.created_at - usual) < _SLACK):
            changes["expires"] = moment(job.expires_at)
        if job.max_attempts != shared.settings.tasks.get(job.task, {}).get("max_attempts"):
            changes["max_attempts"] = job.max_attempts
    copy: AnyTask = object.__new__(type(declared))
    for entry in fields(declared):
        object.__setattr__(copy, entry.name, changes.get(entry.name, getattr(declared, entry.name)))
    return copy


def moment(seconds: float) -> datetime:
    """An instant as the project's datetimes are: aware, or naive in local time without `USE_TZ`."""
    return datetime.fromtimestamp(seconds, UTC if settings.USE_TZ else None)


def seconds_of(run_after: datetime) -> float:
    """The instant of a `run_after`. A naive one, possible without `USE_TZ`, is local time, as Django has it."""
    aware = run_after
    if run_after.utcoffset() is None:
        try:
            aware = run_after.astimezone()
        except (ValueError, OverflowError):  # at either end of the calendar, where an offset leads out of it
            aware = run_after.replace(tzinfo=UTC)
    try:
        return check_run_at(aware, "run_after")
    except ConfigurationError as error:
        raise InvalidTask(str(error)) from error


def run_after_metadata(run_after: datetime) -> str:
    """What is kept with a job so that its result tells the `run_after` it was sent with, also after a retry."""
    return json.dumps({_RUN_AFTER: run_after.isoformat()})


def run_after_of(job: Job) -> datetime | None:
    """The `run_after` a job was sent with."""
    if job.metadata is None:
        return None
    text = json.loads(job.metadata).get(_RUN_AFTER)
    return None if text is None else datetime.fromisoformat(text)


def _arguments(shared: Shared, job: Job) -> tuple[Sequence[Any], dict[str, Any]]:
    try:
        return shared.codecs.get(job.codec).decode_call(job.payload or b"")
    except SerializationError:
        # A job that failed because nobody can read its arguments has a result all the same, with that error in it.
        if job.status is JobStatus.FAILED:
            return (), {}
        raise


def _errors(job: Job, executions: Sequence[Execution]) -> list[TaskError]:
    errors = [
        TaskError(exception_class_path=execution.error_type, traceback=execution.traceback or "")
        for execution in executions
        if execution.error_type and execution.status is not ExecutionStatus.CANCELLED
    ]
    if job.status is JobStatus.CANCELLED:
        return [*errors, _EXPIRED if job.last_error == EXPIRED else _CANCELLED]
    if job.status is JobStatus.FAILED and not errors:
        # Its executions are gone; the line on the job is what is left.
        text = f"{job.last_error or 'no error was kept'}\n"
        return [TaskError(exception_class_path="tinyjobs.core.errors.TinyJobsError", traceback=text)]
    return errors
