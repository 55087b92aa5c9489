"""`jobs list`, `jobs show`, `jobs retry`, `jobs cancel` and `jobs delete`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tinyjobs.backends.base import Backend
from tinyjobs.cli.console import Console, jsonable, plain, plain_lines, shortened, shown_seconds, shown_time
from tinyjobs.cli.outcome import CommandFailed
from tinyjobs.cli.target import Target
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Execution, Job
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import can_retry

type Options = Mapping[str, Any]

_LEFT_OUT = ("payload", "result", "existing", "metadata")
_WIDEST = 60
_LONGEST = 4_000
#: How many jobs a search looks at before it shows what it found.
SEARCHED = 10_000


def list_jobs(target: Target, options: Options, console: Console) -> None:
    """Print a page of jobs."""
    status = options["status"]
    page = finish(
        target.store.list(
            status=JobStatus(status) if status else None,
            queue=options["queue"],
            task=options["task"],
            text=options["search"],
            limit=options["limit"],
            cursor=options["cursor"],
            scan=SEARCHED if options["search"] else None,
        )
    )
    if options["as_json"]:
        console.json({"jobs": [_as_dict(job) for job in page.jobs], "cursor": page.cursor})
        return
    if page.jobs:
        _print_jobs(target, page.jobs, console)
    else:
        console.say("No jobs." if page.cursor is None else f"No job among the {SEARCHED:,} looked at.")
    if page.cursor is not None:
        console.say(f"There are more: --cursor {page.cursor}")


def _print_jobs(target: Target, jobs: Sequence[Job], console: Console) -> None:
    now = target.store.clock.now()
    rows = [
        (
            job.id,
            job.status.value,
            job.queue,
            job.task,
            f"{job.attempts}/{job.max_attempts}",
            shown_time(job.created_at),
            _note(job, now),
        )
        for job in jobs
    ]
    console.table(("ID", "STATUS", "QUEUE", "TASK", "ATTEMPTS", "SENT", "NOTE"), rows)


def show_job(target: Target, options: Options, console: Console) -> None:
    """Print one job whole."""
    job_id = options["id"]
    job = finish(target.store.get(job_id))
    if job is None:
        raise CommandFailed(_not_there(job_id))
    executions = finish(target.store.executions(job_id))
    call, result = _call(target, job), _result(target, job)
    if options["as_json"]:
        attempts = [asdict(execution) for execution in executions]
        console.json({**_as_dict(job), "arguments": _as_json(call), "result": result, "executions": attempts})
        return
    _print_job(job, _as_written(call), result, target.store.clock.now(), console)
    for execution in executions:
        _print_execution(execution, console)


def retry_jobs(target: Target, options: Options, console: Console) -> None:
    """Put failed and cancelled jobs back."""
    _change(target, options, console, lambda store, job_id: finish(store.requeue(job_id)), "queued again", _not_retried)


def cancel_jobs(target: Target, options: Options, console: Console) -> None:
    """End jobs that have not ended."""
    _change(target, options, console, lambda store, job_id: finish(store.cancel(job_id)), "cancelled", _not_cancelled)


def delete_jobs(target: Target, options: Options, console: Console) -> None:
    """Delete jobs that have ended."""
    _change(target, options, console, lambda store, job_id: finish(store.delete(job_id)), "deleted", _not_deleted)


def _change(
    target: Target,
    options: Options,
    console: Console,
    change: Callable[[Backend, str], bool],
    done: str,
    reason: Callable[[Job], str],
) -> None:
    store, left = target.store, 0
    answers: list[dict[str, object]] = []
    for job_id in options["ids"]:
        has_changed = change(store, job_id)
        job = finish(store.get(job_id))
        why = None if has_changed else _not_there(job_id) if job is None else reason(job)
        left += not has_changed
        answers.append({"id": job_id, "done": has_changed, "status": job.status if job else None, "reason": why})
        if not options["as_json"]:
            if why is None:
                console.say(f"{plain(job_id)}: {done}")
            else:
                console.warn(why)
    if options["as_json"]:
        console.json(answers)
    if left:
        raise CommandFailed(f"{left} of {len(answers)} jobs left as they were.")


def _not_there(job_id: str) -> str:
    return f"There is no job {plain(job_id)}."


def _not_retried(job: Job) -> str:
    if can_retry(job.status):
        return f"Job {job.id} was not queued again: another job holds its key {plain(job.key)}."
    return f"Job {job.id} is {job.status}; only failed and cancelled jobs can be queued again."


def _not_cancelled(job: Job) -> str:
    return f"Job {job.id} has ended already: {job.status}."


def _not_deleted(job: Job) -> str:
    if job.status.is_final:
        return f"Job {job.id} was not deleted: a job that waits for it names it."
    return f"Job {job.id} is {job.status}; only jobs that have ended can be deleted. Cancel it first."


def _note(job: Job, now: float) -> str:
    """What is worth knowing at a glance."""
    if job.status is JobStatus.RUNNING:
        return f"on {job.worker_id}"
    if job.status is JobStatus.QUEUED and job.run_at > now:
        return f"due in {shown_seconds(job.run_at - now)}"
    if job.last_error and job.status is not JobStatus.SUCCESS:
        line = " ".join(job.last_error.split())
        return line if len(line) <= _WIDEST else line[: _WIDEST - 3] + "..."
    return ""


def _as_dict(job: Job) -> dict[str, object]:
    return {name: value for name, value in asdict(job).items() if name not in _LEFT_OUT}


type _Call = tuple[Sequence[Any], Mapping[str, Any]] | str  # the arguments, or why they cannot be told


def _call(target: Target, job: Job) -> _Call:
    if job.codec == "pickle":
        return _unread(job.payload)
    try:
        return target.codecs.get(job.codec).decode_call(job.payload or b"")
    except TinyJobsError as error:
        return f"unreadable: {error}"


def _as_json(call: _Call) -> object:
    if isinstance(call, str):
        return call
    args, kwargs = call
    return {"args": [jsonable(value) for value in args], "kwargs": {key: jsonable(kwargs[key]) for key in kwargs}}


def _as_written(call: _Call) -> str:
    """The arguments as they stand in a call."""
    if isinstance(call, str):
        return call
    args, kwargs = call
    return ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]) or "none"


def _result(target: Target, job: Job) -> object:
    if job.result is None:
        return None
    if job.codec == "pickle":
        return _unread(job.result)
    try:
        return jsonable(target.codecs.get(job.codec).decode(job.result))
    except TinyJobsError as error:
        return f"unreadable: {error}"


def _unread(data: bytes | None) -> str:
    # Reading a pickle runs what is in it, and looking at a job should not.
    return f"{len(data or b'')} bytes of pickle, not read here"


def _print_job(job: Job, arguments: object, result: object, now: float, console: Console) -> None:
    facts: Sequence[tuple[str, object]] = (
        ("id", job.id),
        ("task", job.task),
        ("status", job.status),
        ("queue", job.queue),
        ("priority", job.priority),
        ("arguments", arguments),
        ("result", result),
        ("attempts", f"{job.attempts} of {job.max_attempts}"),
        ("hand-backs", job.hand_backs or None),
        ("key", job.key),
        ("sent", shown_time(job.created_at)),
        ("due", shown_time(job.run_at) if job.run_at > now and not job.status.is_final else None),
        ("started", shown_time(job.started_at)),
        ("finished", shown_time(job.finished_at)),
        ("worker", job.worker_id),
        ("lease until", shown_time(job.lease_expires_at)),
        ("scheduled for", shown_time(job.scheduled_for)),
        ("last error", job.last_error),
    )
    for name, value in facts:
        if value is not None:
            console.line(f"{name + ':':<13}{shortened(plain(value), _LONGEST)}")


def _print_execution(execution: Execution, console: Console) -> None:
    console.line()
    ended = f", ended {shown_time(execution.finished_at)}" if execution.finished_at is not None else ""
    console.line(
        f"attempt {execution.attempt}: {execution.status} on {plain(execution.worker_id)}, "
        f"began {shown_time(execution.started_at)}{ended}"
    )
    for line in plain_lines(execution.traceback or ""):
        console.line(f"  {line}")
