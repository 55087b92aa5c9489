"""What a SQL store says in its own way: the few verbs of which one statement of its can do more than the plain ones.

`plain` has the form that any engine understands; a store may bring its own. Everything else is written once, over the
store's named statements.
"""

from collections.abc import Sequence
from typing import Protocol

from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.statements import Statement, Statements
from tinyjobs.backends.time import Now, StoreTime
from tinyjobs.core.job import ClaimRequest, Job, Recorded, ScheduleMove
from tinyjobs.core.transitions import Outcome


class Dialect(Protocol):
    """A store's statements, and its own form of the verbs that decide how fast it is."""

    statements: Statements

    def __getitem__(self, name: str) -> Statement:
        """A statement by its name."""
        ...

    async def insert(self, connection: Connection, job: Job, now: Now) -> bool:
        """Keep one job; False when its key is held."""
        ...

    async def insert_many(self, connection: Connection, jobs: Sequence[Job], now: Now) -> int:
        """Keep those whose key is free; how many that were."""
        ...

    async def record(self, connection: Connection, outcomes: Sequence[Outcome], time: StoreTime) -> list[bool]:
        """Apply the outcomes whose claim still holds, with their executions; which those were.

        For whoever is not the worker that had the jobs: the first of them owns what the tallies get.
        """
        ...

    async def record_and_claim(
        self, connection: Connection, outcomes: Sequence[Outcome], request: ClaimRequest | None, time: StoreTime
    ) -> Recorded:
        """Record what ended and claim what comes next, all or nothing."""
        ...

    async def look(self, connection: Connection, queues: Sequence[str], time: StoreTime) -> tuple[bool, float | None]:
        """Whether a job of these queues (none: of any) is ready, and when, on the caller's clock, the next is due."""
        ...

    async def cancel(self, connection: Connection, job_id: str, now: Now) -> bool:
        """End a job that has not ended, and the attempt under way; False if it had."""
        ...

    async def requeue(self, connection: Connection, job_id: str, now: Now) -> bool:
        """Put a failed or cancelled job back, unless its key is taken by now."""
        ...

    async def delete(self, connection: Connection, job_id: str, now: Now) -> bool:
        """Delete an ended job that no job waits for, with its executions; False if it is none."""
        ...

    async def purge(self, connection: Connection, ids: Sequence[str], now: Now) -> int:
        """Delete these ended jobs, one at least, with their executions, in the caller's transaction; how many."""
        ...

    async def end_unstarted(self, connection: Connection, ids: Sequence[str], now: Now) -> int:
        """End those of these jobs, one at least, that have not started by their expiry; how many."""
        ...

    async def fold(self, connection: Connection, now: Now) -> None:
        """Fold old tallies into fewer rows, all or nothing."""
        ...

    async def present(self, connection: Connection, time: StoreTime) -> float:
        """The instant it is by the clock that decides."""
        ...

    async def advance(self, connection: Connection, moves: Sequence[ScheduleMove]) -> list[bool]:
        """Move the schedules that still stand where they are expected; which those were. In the caller's transaction.

        Of several, one that somebody else is just moving need not be waited for.
        """
        ...
