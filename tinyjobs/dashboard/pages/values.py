"""What is shown of a job's arguments, result and errors: decoded, behind the mask, and never the cause of an error."""

import inspect
import json
from collections.abc import Sequence
from typing import Any

from tinyjobs.core.errors import TinyJobsError
from tinyjobs.core.job import Execution, Job, ScheduleState
from tinyjobs.core.masking import Veil
from tinyjobs.core.sentences import say
from tinyjobs.core.task import TaskSpec
from tinyjobs.core.transitions import can_cancel, can_retry
from tinyjobs.dashboard.services import Desk

#: The most bytes that are decoded for a page that was not asked to show everything.
LARGEST = 1_000_000
#: The most bytes that are looked through for what is to be hidden in the job's other texts, when they are not shown.
LOOKED_THROUGH = 10_000_000


def parameter_names(desk: Desk, task: str, count: int) -> Sequence[str]:
    """By what names a task gets so many positional arguments, as far as its code is here; a variadic one gives many."""
    spec = desk.target.catalogue.find(task)
    if spec is None:
        return ()
    function, skipped = _function(spec)
    try:
        parameters = list(inspect.signature(function).parameters.values())[skipped:]
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in positional]
    variadic = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.VAR_POSITIONAL]
    return [*names, *variadic * (count - len(names))]


def _function(spec: TaskSpec) -> tuple[Any, int]:
    """What the arguments are bound to, and how many parameters of it are not among them."""
    task: Any = getattr(spec.call, "task", None)
    return (spec.call, 0) if task is None else (task.func, int(task.takes_context))


def arguments(desk: Desk, subject: Job | ScheduleState, veil: Veil, *, whole: bool) -> dict[str, Any]:
    """The arguments of a job or a schedule: `args` and `kwargs`, or `error`; `size` in bytes."""
    payload = subject.payload
    if payload is None and isinstance(subject, ScheduleState):
        return {"args": [], "kwargs": {}, "error": None, "size": 0}
    data = payload or b""
    nothing = {"args": None, "kwargs": None, "size": len(data)}
    why = _why_not(subject.codec, data, whole)
    if why is not None:
        if subject.codec != "pickle" and (
            len(data) > LOOKED_THROUGH or plain_call(desk, subject.task, data, veil) is None
        ):
            veil.go_blind()
        return {**nothing, "error": why}
    try:
        given, named = desk.target.codecs.get(subject.codec).decode_call(data)
        args, kwargs = veil.call(given, named, parameter_names(desk, subject.task, len(given)))
    except Exception as error:  # the program's own types are built by its own code
        plain_call(desk, subject.task, data, veil)
        return {**nothing, "error": veil.text(_told(error))}
    return {"args": args, "kwargs": kwargs, "error": None, "size": len(data)}


def plain_call(desk: Desk, task: str, data: bytes, veil: Veil) -> tuple[list[Any], Any] | None:
    """Arguments as JSON alone has them, whatever they stand for. None: they are no JSON."""
    try:
        args, kwargs = json.loads(data.decode("utf-8", "replace"))
        return veil.call(args, kwargs, parameter_names(desk, task, len(args)))
    except (ValueError, TypeError, RecursionError):
        return None


def result(desk: Desk, job: Job, veil: Veil, *, whole: bool) -> dict[str, Any] | None:
    """The return value of a job, or `error`; None: there is none."""
    if job.result is None:
        return None
    why = _why_not(job.codec, job.result, whole)
    if why is not None:
        return {"value": None, "error": why, "size": len(job.result)}
    try:
        value = veil.value(desk.target.codecs.get(job.codec).decode(job.result))
    except Exception as error:
        return {"value": None, "error": veil.text(_told(error)), "size": len(job.result)}
    return {"value": value, "error": None, "size": len(job.result)}


def row(job: Job) -> dict[str, Any]:
    """A job as a list shows it. Of its last error only the kind, since a message may hold what is to be hidden."""
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "status": job.status.value,
        "priority": job.priority,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "created_at": job.created_at,
        "run_at": job.run_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "scheduled_for": job.scheduled_for,
        "worker_id": job.worker_id,
        "error": error_kind(job.last_error),
        **possible(job),
    }


def possible(job: Job) -> dict[str, bool]:
    """What the job's status lets people do to it."""
    return {
        "can_retry": can_retry(job.status),
        "can_cancel": can_cancel(job.status),
        "can_delete": job.status.is_final,
    }


def attempt(execution: Execution, veil: Veil) -> dict[str, Any]:
    """One attempt with its traceback."""
    return {
        "attempt": execution.attempt,
        "claim": execution.claim,
        "status": execution.status.value,
        "worker_id": execution.worker_id,
        "started_at": execution.started_at,
        "finished_at": execution.finished_at,
        "error_type": execution.error_type,
        "traceback": None if execution.traceback is None else veil.text(execution.traceback),
    }


def error_kind(line: str | None) -> str | None:
    """The class in the line that a job keeps of its last error."""
    if not line:
        return None
    kind = line.partition(":")[0].strip()
    return kind if kind.isidentifier() else None


def _why_not(codec: str, data: bytes, whole: bool) -> str | None:
    if codec == "pickle":
        # Reading a pickle runs what is in it, and looking at a job should not.
        return say("%(size)s bytes of pickle, which is not read here.", size=len(data))
    if len(data) > LARGEST and not whole:
        return say("%(size)s bytes, which are read when you ask for everything.", size=len(data))
    return None


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, TinyJobsError) else f"{type(error).__name__}: {error}"
