"""Rows to records and back. The one place that knows the order of a job's columns."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from tinyjobs.core.errors import DataRefusedError, StoreError
from tinyjobs.core.job import Execution, Job, ScheduleState
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import Outcome

#: The order of every statement that answers whole jobs.
JOB_COLUMNS = (
    "id",
    "task",
    "queue",
    "status",
    "priority",
    "attempts",
    "max_attempts",
    "hand_backs",
    "claims",
    "run_at",
    "created_at",
    "started_at",
    "finished_at",
    "lease_expires_at",
    "expires_at",
    "scheduled_for",
    "worker_id",
    "dedup_key",
    "codec",
    "runs_after",
    "waiting_on",
    "last_error",
    "metadata",
    "payload",
    "result",
)
#: Left out of listings, which would otherwise load every argument and result.
LARGE_COLUMNS = frozenset({"payload", "result"})
_STATUSES = {status.value: status for status in JobStatus}
#: The places of the columns from `priority` to `created_at`, which are numbers in every row.
_NUMBERS = slice(JOB_COLUMNS.index("priority"), JOB_COLUMNS.index("created_at") + 1)
_NUMERIC = frozenset((int, float))
#: The places of two numbers that may be missing.
_PERHAPS = slice(JOB_COLUMNS.index("expires_at"), JOB_COLUMNS.index("scheduled_for") + 1)
_PERHAPS_NUMERIC = _NUMERIC | {type(None)}
_TEXTS = slice(JOB_COLUMNS.index("id"), JOB_COLUMNS.index("queue") + 1)
_TEXT = frozenset((str,))
_RIGHT: dict[int, Callable[[Any], bool]] = {
    JOB_COLUMNS.index("status"): _STATUSES.__contains__,
    **dict.fromkeys(range(len(JOB_COLUMNS))[_NUMBERS], lambda value: type(value) in _NUMERIC),
    **dict.fromkeys(range(len(JOB_COLUMNS))[_PERHAPS], lambda value: type(value) in _PERHAPS_NUMERIC),
    **dict.fromkeys(range(len(JOB_COLUMNS))[_TEXTS], lambda value: type(value) in _TEXT),
    **dict.fromkeys(
        (JOB_COLUMNS.index("payload"), JOB_COLUMNS.index("result")),
        lambda value: value is None or isinstance(value, str | bytes | memoryview),
    ),
}


def job_from_row(row: Sequence[Any]) -> Job:
    """A job from a row in the order of `JOB_COLUMNS`. Raises `StoreError` for one that somebody spoilt."""
    try:
        return Job(
            id=row[0],
            task=row[1],
            queue=row[2],
            status=_STATUSES[row[3]],
            priority=row[4],
            attempts=row[5],
            max_attempts=row[6],
            hand_backs=row[7],
            claims=row[8],
            run_at=row[9],
            created_at=row[10],
            started_at=row[11],
            finished_at=row[12],
            lease_expires_at=row[13],
            expires_at=row[14],
            scheduled_for=row[15],
            worker_id=row[16],
            key=row[17],
            codec=row[18],
            runs_after=row[19],
            waiting_on=row[20],
            last_error=row[21],
            metadata=row[22],
            payload=_bytes(row[23]),
            result=_bytes(row[24]),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise _spoilt(row) from error


def sound_job_from_row(row: Sequence[Any]) -> Job:
    """The same where numbers and texts have to be such: SQLite keeps any kind of value in any column."""
    job = job_from_row(row)
    if not (
        _NUMERIC.issuperset(map(type, row[_NUMBERS]))
        and _PERHAPS_NUMERIC.issuperset(map(type, row[_PERHAPS]))
        and _TEXT.issuperset(map(type, row[_TEXTS]))
    ):
        raise _spoilt(row)
    return job


def _spoilt(row: Sequence[Any]) -> StoreError:
    wrong = [
        f"{JOB_COLUMNS[place]} is {row[place]!r:.40}" for place, is_right in _RIGHT.items() if not is_right(row[place])
    ]
    told = ", ".join(wrong) or "its values have the wrong kind"
    return StoreError(f"The row of job {row[0]!r:.60} cannot be read: {told}. Was it changed by hand?")


def insert_row(job: Job, now: float) -> tuple[Any, ...]:
    """The parameters of `insert`: a queued job is ready when it is due, else it stands among the delayed."""
    is_due = job.run_at <= now
    return (
        job.id,
        job.task,
        job.queue,
        job.status.value,
        job.priority,
        job.max_attempts,
        job.run_at,
        job.created_at,
        job.run_at if is_due else None,
        None if is_due else job.run_at,
        job.expires_at,
        job.expires_at,
        job.scheduled_for,
        job.key,
        job.key,
        job.codec,
        job.metadata,
        job.payload,
    )


def execution_from_row(row: Sequence[Any]) -> Execution:
    """An execution from a row in the order of its fields."""
    return Execution(
        job_id=row[0],
        attempt=row[1],
        claim=row[2],
        status=ExecutionStatus(row[3]),
        worker_id=row[4],
        started_at=row[5],
        finished_at=row[6],
        error_type=row[7],
        traceback=row[8],
    )


def schedule_from_row(row: Sequence[Any]) -> ScheduleState:
    """A schedule's state from a row in the order of its fields."""
    return ScheduleState(
        name=row[0],
        cron=row[1],
        timezone=row[2],
        next_run_at=row[3],
        last_run_at=row[4],
        last_job_id=row[5],
        task=row[6],
        payload=_bytes(row[7]),
        codec=row[8],
        queue=row[9],
        priority=row[10],
        misfire=row[11],
        overlap=bool(row[12]),
        source=row[13],
        error=row[14],
        skips=row[15],
    )


def schedule_row(state: ScheduleState) -> tuple[Any, ...]:
    """The parameters of `schedule_register`: what is declared of a schedule."""
    return (
        state.name,
        state.cron,
        state.timezone,
        state.next_run_at,
        state.task,
        state.payload,
        state.codec,
        state.queue,
        state.priority,
        state.misfire,
        state.overlap,
        state.source,
    )


#: Values as a parameter. As they are, since not every database can read an escape.
as_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def pack_outcomes(
    outcomes: Sequence[Outcome], *, longest: int | None = None
) -> tuple[str, list[tuple[bytes, str, int]]]:
    """A group of outcomes as one JSON text, and beside it the results that are not text, or longer than `longest`.

    One parameter for the whole group keeps the statements of a group few, and with them the moments at which another
    thread can hold up a writer that holds the lock. Each outcome is an array:
    id, claim, status, attempts, hand_backs, run_at, finished_at, result, last_error, then for the execution: status
    (null: none is written), ended_at, error_type, traceback.

    SQLite ends a text taken from JSON at its first NUL, so a result with one travels beside the group, and an error
    text with one is refused. Half a surrogate pair is left as it is, for the driver to refuse.
    """
    packed = []
    binary = []
    for outcome in outcomes:
        result = None
        if outcome.result is not None:
            is_long = longest is not None and len(outcome.result) > longest
            result = None if is_long or b"\0" in outcome.result else _text(outcome.result)
            if result is None:
                binary.append((outcome.result, outcome.job_id, outcome.claim))
        packed.append(
            (
                outcome.job_id,
                outcome.claim,
                outcome.status,
                outcome.attempts,
                outcome.hand_backs,
                outcome.run_at,
                outcome.finished_at,
                result,
                outcome.last_error,
                outcome.ended_as,
                outcome.ended_at,
                outcome.error_type,
                outcome.traceback,
            )
        )
    text = as_json(packed)
    if "\\u0000" in text and any(isinstance(value, str) and "\0" in value for row in packed for value in row):
        raise DataRefusedError("A NUL character in the text of an outcome, which JSON in SQL cannot carry.")
    return text, binary


def _text(result: bytes) -> str | None:
    try:
        return result.decode()
    except UnicodeDecodeError:
        return None


def _bytes(value: Any) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    # A payload that was changed by hand is a text in SQLite, whatever its column says.
    return value.encode() if isinstance(value, str) else bytes(memoryview(value))
