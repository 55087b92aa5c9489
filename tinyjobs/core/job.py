"""The records everything else speaks of: jobs, executions, schedules, and the answers a store gives about them.

They are plain values. A record never reaches back to the store it came from. Instants are unix seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tinyjobs.core.cron import NEVER
from tinyjobs.core.record import record
from tinyjobs.core.status import ExecutionStatus, JobStatus


@record
class Job:
    """A request to run one task once, as the store holds it.

    `run_at` is the earliest start; `claims` counts every claim there ever was and is the fence of every change;
    `attempts` counts the attempts used of `max_attempts`; `hand_backs` counts hand-backs in a row. `payload` and
    `result` are encoded by `codec` and are None in a listing, which leaves large columns in the store.
    `existing` is True when an enqueue gave back the job that already held the key. A job that has not started by
    `expires_at` ends cancelled; `scheduled_for` is the instant that a schedule's job stands for.

    `delay` and `expires_in` are of use to the enqueue alone: the seconds from then on after which the job was asked to
    run or to expire, where no instant was named. A store whose own clock decides counts from that; `run_at` and
    `expires_at` are then what this process's clock makes of it.
    """

    id: str
    task: str
    queue: str = "default"
    status: JobStatus = JobStatus.QUEUED
    priority: int = 0
    attempts: int = 0
    max_attempts: int = 1
    hand_backs: int = 0
    claims: int = 0
    run_at: float = 0.0
    created_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    lease_expires_at: float | None = None
    expires_at: float | None = None
    scheduled_for: float | None = None
    worker_id: str | None = None
    key: str | None = None
    codec: str = "json"
    runs_after: str | None = None
    waiting_on: str | None = None
    last_error: str | None = None
    metadata: str | None = None
    payload: bytes | None = None
    result: bytes | None = None
    existing: bool = False
    delay: float | None = field(default=None, compare=False)
    expires_in: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One attempt of a job. `claim` identifies it for good; `error_type` is a dotted class path."""

    job_id: str
    attempt: int
    claim: int
    status: ExecutionStatus
    worker_id: str
    started_at: float
    finished_at: float | None = None
    error_type: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, newest first. `cursor` gives the next page, or is None at the end."""

    jobs: list[Job]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """A bound inside one claim: at most `free` of the jobs whose task is in `tasks` may be taken.

    A worker whose threads are nearly all busy names its thread tasks here, so that one claim can fill its coroutine
    slots without taking jobs it has no thread for. `ahead` bounds how many ready jobs of a queue the claim looks at.
    """

    tasks: frozenset[str]
    free: int
    ahead: int = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What a worker asks for: up to `limit` jobs of `queues` (empty: of every queue), leased for `lease` seconds.

    `let_in` moves delayed jobs that have come due into the claim's reach first; a worker that knows none is due
    leaves it out.
    """

    worker_id: str
    limit: int
    lease: float
    queues: tuple[str, ...] = ()
    room: Room | None = None
    let_in: bool = True


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer to a claim: the jobs, in queue order, and when the next delayed job comes due (None: none is)."""

    jobs: list[Job] = field(default_factory=list)
    next_due: float | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The answer to a group: for each outcome whether it was applied (False: stale), and the claim made with it.

    `refused` maps an outcome's place in the group to the store's reason for refusing its data.
    """

    applied: list[bool]
    claimed: Claimed | None = None
    refused: Mapping[int, Exception] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Held:
    """A claim somebody holds: the pair that fences every change."""

    job_id: str
    claim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """One queue in figures. `oldest_due` is the instant since which its oldest due job waits (None: nothing is due)."""

    name: str
    ready: int = 0
    delayed: int = 0
    running: int = 0
    held: int = 0
    waiting: int = 0
    oldest_due: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The store in figures at the instant `now`."""

    now: float
    queues: Sequence[QueueStats] = ()
    by_status: Mapping[str, int] = field(default_factory=dict)
    queued_by_task: Mapping[str, int] = field(default_factory=dict)
    expired_leases: int = 0
    next_due: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule as the store keeps it. `next_run_at` is what firing compares and swaps.

    `payload` holds the arguments, encoded by `codec` (None: there are none); `queue` and `priority` are None where
    those of the task hold. `source` is "code" for what is declared there, "data" for what was made at run time.
    `error` tells why the schedule stopped itself. `skips` counts firings that found their last job still active.
    While `is_paused`, `next_run_at` is a time that never comes.
    """

    name: str
    cron: str
    timezone: str
    next_run_at: float
    last_run_at: float | None = None
    last_job_id: str | None = None
    task: str = ""
    payload: bytes | None = None
    codec: str = "json"
    queue: str | None = None
    priority: int | None = None
    misfire: str = "skip"
    overlap: bool = False
    source: str = "code"
    error: str | None = None
    skips: int = 0

    @property
    def is_paused(self) -> bool:
        """Whether it fires no more until it is resumed: somebody paused it, or it stopped itself."""
        return self.next_run_at >= NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMove:
    """One schedule moved on from `expected` to `next_run_at`, with the jobs of that firing, or an error that stops it.

    Both instants are unix seconds.
    """

    name: str
    expected: float
    next_run_at: float
    jobs: Sequence[Job] = ()
    error: str | None = None


def running_execution(job: Job) -> Execution:
    """The attempt under way, as the job itself tells it."""
    return Execution(
        job_id=job.id,
        attempt=job.attempts,
        claim=job.claims,
        status=ExecutionStatus.RUNNING,
        worker_id=job.worker_id or "",
        started_at=job.started_at or 0.0,
    )


def queue_order(job: Job) -> tuple[int, float, str]:
    """The order of a claim's answer: priority, then age."""
    return -job.priority, job.run_at, job.id
