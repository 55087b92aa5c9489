"""The legal moves of a job, each a pure function that returns a value a store can apply.

A store applies an `Outcome` only while the job is running under that very claim, and answers applied or stale; so a
run that stalled past its lease, or was cancelled and retried, cannot report for the run that replaced it. Instants
(`now`, `retry_at`) are unix seconds, a `delay` is in seconds. Nothing here knows how a store writes a row.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from tinyjobs.core.job import Execution, Held, Job
from tinyjobs.core.record import record
from tinyjobs.core.status import ExecutionStatus, JobStatus

#: What stands in `last_error` of a job that was not started in time.
EXPIRED = "Expired: the job had not started by the time its expires= allows."
WORKER_LOST = "tinyjobs.core.errors.WorkerLost"
_LOST_TEXT = "The worker running this attempt vanished: its lease ran out without an outcome."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionError:
    """What went wrong in an attempt: a dotted class path, a message, and the traceback as text, all storable."""

    error_type: str
    message: str
    traceback: str | None = None

    @property
    def line(self) -> str:
        """The error in one line, as a job's `last_error` shows it."""
        name = self.error_type.rpartition(".")[2]
        return f"{name}: {self.message}" if self.message else name


@record
class Outcome:
    """How one claim of one job ends: what becomes of the job, and of its history.

    `ended_as` is the status of the execution to write, or None when the claim is to read as if it never ran. Flat,
    since one is made for every job that ends; `execution` is the history row as a record.
    """

    job_id: str
    claim: int
    status: JobStatus
    attempts: int
    hand_backs: int
    run_at: float
    started_at: float | None
    finished_at: float | None
    result: bytes | None = None
    last_error: str | None = None
    ended_as: ExecutionStatus | None = None
    ended_at: float | None = None
    attempt: int = 0
    worker_id: str = ""
    began_at: float = 0.0
    error_type: str | None = None
    traceback: str | None = None

    @property
    def execution(self) -> Execution | None:
        """The execution to write, or None."""
        if self.ended_as is None:
            return None
        return Execution(
            job_id=self.job_id,
            attempt=self.attempt,
            claim=self.claim,
            status=self.ended_as,
            worker_id=self.worker_id,
            started_at=self.began_at,
            finished_at=self.ended_at,
            error_type=self.error_type,
            traceback=self.traceback,
        )

    @property
    def size(self) -> int:
        """About how many bytes the outcome carries, for bounding a group."""
        return 200 + len(self.last_error or "") + len(self.traceback or "") + len(self.result or b"")


def succeeded(job: Job, result: bytes | None, now: float) -> Outcome:
    """The attempt returned: the job ends in success, with its encoded result if it is kept."""
    return Outcome(
        job_id=job.id,
        claim=job.claims,
        status=JobStatus.SUCCESS,
        attempts=job.attempts,
        hand_backs=0,
        run_at=job.run_at,
        started_at=job.started_at,
        finished_at=now,
        result=result,
        ended_as=ExecutionStatus.SUCCESS,
        ended_at=now,
        attempt=job.attempts,
        worker_id=job.worker_id or "",
        began_at=now if job.started_at is None else job.started_at,
    )


def failed(
    job: Job,
    error: ExecutionError,
    retry_at: float | None,
    now: float,
    status: ExecutionStatus = ExecutionStatus.FAILED,
) -> Outcome:
    """The attempt failed: back to the queue at `retry_at`, or, when that is None, failed for good."""
    return Outcome(
        job_id=job.id,
        claim=job.claims,
        status=JobStatus.FAILED if retry_at is None else JobStatus.QUEUED,
        attempts=job.attempts,
        hand_backs=0,
        run_at=job.run_at if retry_at is None else retry_at,
        started_at=job.started_at if retry_at is None else None,
        finished_at=now if retry_at is None else None,
        last_error=error.line,
        ended_as=status,
        ended_at=now,
        attempt=job.attempts,
        worker_id=job.worker_id or "",
        began_at=now if job.started_at is None else job.started_at,
        error_type=error.error_type,
        traceback=error.traceback or error.message,
    )


def lost(job: Job, now: float) -> Outcome:
    """The lease ran out: the attempt counts as used, since it may have done its work before its worker vanished."""
    if has_expired(job):
        return expired(job, now)  # its worker would not have run it
    error = ExecutionError(error_type=WORKER_LOST, message=_LOST_TEXT)
    retry_at = now if job.attempts < job.max_attempts else None
    return failed(job, error, retry_at, now, ExecutionStatus.LOST)


def left_behind(jobs: Iterable[Job], own: Callable[[], Collection[Held]]) -> list[Job]:
    """Those of the jobs whose present claim `own` does not name: whoever reaps holds the others, and runs them."""
    held = set(own())
    return [job for job in jobs if Held(job.id, job.claims) not in held]


def released(job: Job, now: float, delay: float = 0.0) -> Outcome:
    """A started attempt was cut short on purpose, as at shutdown: queued again, the attempt not used.

    The cut run stays visible as a cancelled execution.
    """
    return Outcome(
        job_id=job.id,
        claim=job.claims,
        status=JobStatus.QUEUED,
        attempts=max(job.attempts - 1, 0),
        hand_backs=0,
        run_at=now + delay if delay else min(job.run_at, now),
        started_at=None,
        finished_at=None,
        last_error=job.last_error,
        ended_as=ExecutionStatus.CANCELLED,
        ended_at=now,
        attempt=job.attempts,
        worker_id=job.worker_id or "",
        began_at=now if job.started_at is None else job.started_at,
    )


def handed_back(job: Job, now: float, delay: float = 0.0) -> Outcome:
    """The claim never became a run: attempts and history read as if it had not happened; only `hand_backs` counts."""
    return Outcome(
        job_id=job.id,
        claim=job.claims,
        status=JobStatus.QUEUED,
        attempts=max(job.attempts - 1, 0),
        hand_backs=job.hand_backs + 1,
        run_at=now + delay if delay else min(job.run_at, now),
        started_at=None,
        finished_at=None,
        last_error=job.last_error,
    )


def may_expire(job: Job) -> bool:
    """Whether a job has an expiry and has not started: none of its claims stands, and each was handed back."""
    is_queued = job.status is not JobStatus.RUNNING and not job.status.is_final
    return job.expires_at is not None and is_queued and job.claims == job.hand_backs


def has_expired(job: Job) -> bool:
    """Whether this claim came too late for a job that had never started before; it then is not to start.

    Both instants are the store's, so it does not matter what time the worker takes it to be.
    """
    if job.expires_at is None or job.started_at is None or job.expires_at > job.started_at:
        return False
    return job.claims == job.hand_backs + 1  # every claim before this one was handed back


def expired(job: Job, now: float) -> Outcome:
    """The claim came after the expiry: the job ends cancelled, and its history reads as if it had never begun."""
    return Outcome(
        job_id=job.id,
        claim=job.claims,
        status=JobStatus.CANCELLED,
        attempts=max(job.attempts - 1, 0),
        hand_backs=job.hand_backs,
        run_at=job.run_at,
        started_at=None,
        finished_at=now,
        last_error=EXPIRED,
    )


def has_landed(outcome: Outcome, executions: Iterable[Execution]) -> bool:
    """Whether a job's history shows that the outcome was applied, for a write whose answer was lost.

    A hand-back leaves no history to tell by, nor does an expiry.
    """
    return any(entry.claim == outcome.claim and entry.status is outcome.ended_as for entry in executions)


def can_cancel(status: JobStatus) -> bool:
    """Whether a job of that status may still be cancelled."""
    return not status.is_final


def can_retry(status: JobStatus) -> bool:
    """Whether a job of that status may be put back in the queue by hand."""
    return status in (JobStatus.FAILED, JobStatus.CANCELLED)


def retried_expiry(job: Job, now: float) -> float | None:
    """The expiry of a job retried by hand: none, but for one no worker ever took that is still to expire."""
    return job.expires_at if job.claims == 0 and (job.expires_at or 0.0) > now else None


def retried_run_at(job: Job, now: float) -> float:
    """When a job retried by hand is due: at once, but one no worker ever took keeps the time it was sent for."""
    return job.run_at if job.claims == 0 else now
