"""Records to what scripts take, and their answers to records. The one place that knows the order of a job's columns.

Numbers travel as texts, so that no instant loses a bit on its way through JSON in Lua. A value that is missing is left
out of a job on its way in, and is false or an empty text on its way back.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tinyjobs.core.errors import DataRefusedError, StoreError
from tinyjobs.core.job import Execution, Job, ScheduleState
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import Outcome

_STATUSES = {status.value: status for status in JobStatus}
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

type Row = Sequence[Any]


def as_json(value: object) -> bytes:
    """A value as scripts read it. Raises `DataRefusedError` for text that is none."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError as error:
        raise refused(error) from error


def as_told(answer: bytes) -> Any:
    """What a script answers as JSON. Bytes that are no text, which only others can have written, are replaced."""
    return json.loads(answer.decode("utf-8", "replace"))


def refused(error: UnicodeEncodeError) -> DataRefusedError:
    """The error for text that is none."""
    return DataRefusedError(f"Redis cannot store these values: {error}")


def job_fields(job: Job) -> dict[str, str]:
    """A new job without its payload. A job with a delay or an expiry counted from the enqueue says so by these."""
    fields = {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "priority": str(job.priority),
        "max_attempts": str(job.max_attempts),
        "created_at": repr(job.created_at),
        "codec": job.codec,
    }
    if job.delay is None:
        fields["run_at"] = repr(job.run_at)
    else:
        fields["delay"] = repr(job.delay)
    if job.expires_in is not None:
        fields["expires_in"] = repr(job.expires_in)
    elif job.expires_at is not None:
        fields["expires_at"] = repr(job.expires_at)
    for name, value in (("key", job.key), ("metadata", job.metadata), ("runs_after", job.runs_after)):
        if value is not None:
            fields[name] = value
    if job.scheduled_for is not None:
        fields["scheduled_for"] = repr(job.scheduled_for)
    return fields


def job_from_row(row: Row, payload: bytes | None = None, result: bytes | None = None) -> Job:
    """A job from a row in the order of the scripts' COLUMNS. Raises `StoreError` for one that somebody spoilt."""
    try:
        return Job(
            id=row[0],
            task=_text(row[1]),
            queue=_text(row[2]),
            status=_STATUSES[row[3]],
            priority=int(row[4]),
            attempts=int(row[5] or 0),
            max_attempts=int(row[6]),
            hand_backs=int(row[7] or 0),
            claims=int(row[8] or 0),
            run_at=float(row[9]),
            created_at=float(row[10]),
            started_at=float(row[11]) if row[11] else None,
            finished_at=float(row[12]) if row[12] else None,
            lease_expires_at=float(row[13]) if row[13] else None,
            expires_at=float(row[14]) if row[14] else None,
            scheduled_for=float(row[15]) if row[15] else None,
            worker_id=row[16] or None,
            key=None if row[17] is False else row[17],
            codec=_text(row[18]),
            runs_after=row[19] or None,
            last_error=row[20] or None,
            metadata=None if row[21] is False else row[21],
            payload=payload,
            result=result,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise StoreError(f"The hash of job {row[0]!r:.60} cannot be read: {error}. Was it changed by hand?") from error


def claimed_job(row: Row, payload: bytes, worker_id: str, started_at: float, lease_ends: float) -> Job:
    """A job from a row in the order of the claim's columns, which have been seen to be sound."""
    return Job(
        id=row[0],
        task=row[1],
        queue=row[2],
        status=JobStatus.RUNNING,
        priority=int(row[3]),
        attempts=int(row[4]),
        max_attempts=int(row[5]),
        hand_backs=int(row[6] or 0),
        claims=int(row[7]),
        run_at=float(row[8]),
        created_at=float(row[9]),
        started_at=started_at,
        lease_expires_at=lease_ends,
        expires_at=float(row[10]) if row[10] else None,
        scheduled_for=float(row[11]) if row[11] else None,
        worker_id=worker_id,
        key=None if row[12] is False else row[12],
        codec=row[13],
        runs_after=row[14] or None,
        last_error=row[15] or None,
        metadata=None if row[16] is False else row[16],
        payload=payload,
    )


def whole_jobs(rows: bytes, blobs: Sequence[bytes | None]) -> list[Job]:
    """Jobs from the JSON of their rows, and the payload and result of each in turn."""
    return [job_from_row(row, blobs[2 * place], blobs[2 * place + 1]) for place, row in enumerate(as_told(rows))]


def outcome_row(outcome: Outcome, results: list[bytes]) -> list[Any]:
    """An outcome for `record`; its result, if it has one, joins `results`, and the row names its place there."""
    if outcome.status is JobStatus.SUCCESS and outcome.result is None:
        return [outcome.job_id, str(outcome.claim), repr(outcome.finished_at)]
    place: int | bool = False
    if outcome.result is not None:
        results.append(outcome.result)
        place = len(results)
    return [
        outcome.job_id,
        str(outcome.claim),
        outcome.status,
        str(outcome.attempts),
        str(outcome.hand_backs),
        repr(outcome.run_at),
        _number(outcome.finished_at),
        outcome.last_error or False,
        place,
        outcome.ended_as or False,
        _number(outcome.ended_at),
        outcome.error_type or False,
        outcome.traceback or False,
    ]


def execution_from_text(job_id: str, text: bytes) -> Execution:
    """An attempt from the JSON that its outcome wrote."""
    attempt, claim, status, worker_id, started_at, finished_at, error_type, traceback = as_told(text)
    return Execution(
        job_id=job_id,
        attempt=int(attempt),
        claim=int(claim),
        status=ExecutionStatus(status),
        worker_id=worker_id,
        started_at=float(started_at or finished_at),
        finished_at=float(finished_at),
        error_type=error_type or None,
        traceback=traceback or None,
    )


def schedule_fields(state: ScheduleState, payloads: list[bytes]) -> dict[str, Any]:
    """What is declared of a schedule; its payload, if it has one, joins `payloads`."""
    fields: dict[str, Any] = {
        "name": state.name,
        "cron": state.cron,
        "timezone": state.timezone,
        "next_run_at": repr(state.next_run_at),
        "task": state.task,
        "codec": state.codec,
        "queue": _encode(state.queue),
        "priority": "" if state.priority is None else str(state.priority),
        "misfire": state.misfire,
        "overlap": "1" if state.overlap else "",
        "source": state.source,
    }
    if state.payload is not None:
        payloads.append(state.payload)
        fields["payload"] = len(payloads)
    return fields


def schedule_from_row(row: Row, payload: bytes | None) -> ScheduleState:
    """A schedule from a row in the order of the scripts' SCHEDULE."""
    return ScheduleState(
        name=row[0],
        cron=row[1],
        timezone=row[2],
        next_run_at=float(row[3]),
        last_run_at=float(row[4]) if row[4] else None,
        last_job_id=row[5] or None,
        task=row[6],
        payload=payload,
        codec=row[7],
        queue=json.loads(row[8]),
        priority=int(row[9]) if row[9] else None,
        misfire=row[10],
        overlap=row[11] == "1",
        source=row[12],
        error=row[13] or None,
        skips=int(row[14] or 0),
    )


def paired(flat: Iterable[str]) -> dict[str, str]:
    """A dictionary from names and values in turn."""
    values = iter(flat)
    return dict(zip(values, values, strict=True))


def _number(value: float | None) -> str | bool:
    return False if value is None else repr(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is missing")
    return value
