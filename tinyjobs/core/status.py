"""The statuses of a job and of an execution.

They answer different questions: a job whose first attempt failed is `queued` again, while the execution of that
attempt stays `failed` for good. This module knows nothing of how a status is reached; that is `transitions`.
"""

from enum import StrEnum


class JobStatus(StrEnum):
    """Where a job stands. `success`, `failed` and `cancelled` are final."""

    QUEUED = "queued"
    HELD = "held"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether no worker will touch the job again unless somebody retries it."""
        return self in FINAL


FINAL = frozenset({JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELLED})
ACTIVE = frozenset(JobStatus) - FINAL


class ExecutionStatus(StrEnum):
    """How one attempt stands or ended. `lost` means its worker vanished: it started, how it ended is unknown."""

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    CANCELLED = "cancelled"
