"""From a task and its arguments to a job and its result, once per enqueue: what is the same for every item is
worked out once, so that a bulk enqueue costs little more per item than its row.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.tasks.exceptions import InvalidTask

from tinyjobs.core.errors import ConfigurationError, SerializationError
from tinyjobs.core.expiry import expiry_fields, refuse_hopeless
from tinyjobs.core.job import Job
from tinyjobs.core.options import TaskOptions
from tinyjobs.core.signature import CallCheck
from tinyjobs.taskbackend.normal import normalised
from tinyjobs.taskbackend.resolver import effective_options, sendable
from tinyjobs.taskbackend.results import JobResult, moment, new_result, run_after_metadata, seconds_of
from tinyjobs.taskbackend.shared import Shared
from tinyjobs.taskbackend.task import DEFAULT_OPTIONS, Task, expiry_of, options_of
from tinyjobs.taskbackend.typed import AnyTask


class Draft:
    """One enqueue call. Raises `InvalidTask` when a worker would not find the task, and settles the options."""

    __slots__ = ("_check", "_codec", "_common", "_enqueued_at", "_keeps_types", "_now", "_shared", "_task")

    def __init__(self, shared: Shared, task: AnyTask) -> None:
        path = _sendable_path(shared, task)
        options = _options(shared, task, path)
        self._shared = shared
        self._task = task
        self._check = _kept_check(shared, task)
        self._codec = shared.codecs.get(options.codec)
        self._keeps_types = shared.settings.rich_arguments or options.codec != "json"
        self._now = now = shared.clock.now()
        self._enqueued_at = moment(now)
        run_after = task.run_after
        run_at = now if run_after is None else seconds_of(run_after)
        expiry = _expiry(task, options, run_at, now)
        self._common: dict[str, Any] = {
            "task": path,
            "queue": task.queue_name,
            # Django admits whatever equals a whole number, such as 5.0 or a member of an enum.
            "priority": int(task.priority),
            "max_attempts": options.max_attempts,
            "run_at": run_at,
            # A store with a clock of its own counts from that: this process's may be wrong.
            "delay": 0.0 if run_after is None else None,
            "created_at": now,
            "key": task.key if isinstance(task, Task) else None,
            "codec": options.codec,
            "metadata": None if run_after is None else run_after_metadata(run_after),
            **expiry,
        }

    def one(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Job, JobResult]:
        """The job for one call."""
        return self._make(self._shared.ids.make(self._now), args, kwargs)

    def many(self, calls: Sequence[tuple[Sequence[Any], Mapping[str, Any]]]) -> list[tuple[Job, JobResult]]:
        """A job for each call, in their order; an error names the place of the call it is about."""
        ids = self._shared.ids.make_many(self._now, len(calls))
        made: list[tuple[Job, JobResult]] = []
        for job_id, (args, kwargs) in zip(ids, calls, strict=True):
            try:
                made.append(self._make(job_id, args, kwargs))
            except TypeError as error:
                kind = SerializationError if isinstance(error, SerializationError) else TypeError
                raise kind(f"item {len(made)} of enqueue_many: {error}") from error
        return made

    def _make(self, job_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Job, JobResult]:
        self._check(args, kwargs)
        if self._keeps_types:
            payload = self._codec.encode_call(args, kwargs)
            decoded, kept_kwargs = self._codec.decode_call(payload)  # the caller may go on changing what it passed
            kept_args = list(decoded)
        else:
            kept_args = normalised(args)
            kept_kwargs = normalised(kwargs) if kwargs else {}
            payload = self._codec.encode_call(kept_args, kept_kwargs)
        job = Job(id=job_id, payload=payload, **self._common)
        shared = self._shared
        return job, new_result(job_id, self._enqueued_at, self._task, shared.settings.alias, kept_args, kept_kwargs)


def _sendable_path(shared: Shared, task: AnyTask) -> str:
    path = shared.paths.get(task.func)
    if path is None:
        reason = sendable(task)
        if reason is not None:
            raise InvalidTask(f"The task {task.module_path} cannot be sent, since no worker would find it: {reason}.")
        path = shared.paths[task.func] = task.module_path
    return path


def _options(shared: Shared, task: AnyTask, path: str) -> TaskOptions:
    changes = shared.settings.tasks.get(path)
    if changes is None:
        return options_of(task) if isinstance(task, Task) else DEFAULT_OPTIONS
    declared = shared.catalogue.declared(path)
    if isinstance(task, Task) and isinstance(declared, Task):
        # What was asked for with using() is nearer than the settings.
        if task.max_attempts != declared.max_attempts:
            changes = {**changes, "max_attempts": task.max_attempts}
        if task.expires != declared.expires:
            changes = {**changes, "expires": None}
    return effective_options(task, changes)


def _expiry(task: AnyTask, options: TaskOptions, run_at: float, now: float) -> dict[str, Any]:
    """What the job is given for its expiry: by the settings, or else by the task or its `using()`."""
    asked = expiry_of(task) if isinstance(task, Task) and options.expires is None else None
    fields = expiry_fields(asked, options.expires, now)
    if fields:
        try:
            refuse_hopeless(run_at, fields["expires_at"], now, f"the task {task.module_path}")
        except ConfigurationError as error:
            raise InvalidTask(str(error)) from error
    return fields


def check_arguments(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise `TypeError` where a call of the task with these arguments would."""
    _call_check(task)(args, kwargs)


def _call_check(task: AnyTask) -> CallCheck:
    return CallCheck(task.module_path, task.func, in_front=1 if task.takes_context else 0)


def _kept_check(shared: Shared, task: AnyTask) -> CallCheck:
    key = (task.func, task.takes_context)
    check = shared.call_checks.get(key)
    if check is None:
        check = shared.call_checks[key] = _call_check(task)
    return check
