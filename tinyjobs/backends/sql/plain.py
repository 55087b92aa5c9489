"""The dialect of any engine: several statements, one transaction around them."""

from collections.abc import Sequence

from tinyjobs.backends.sql.claim import claim, look
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.record import record
from tinyjobs.backends.sql.rows import insert_row
from tinyjobs.backends.sql.statements import Statement, Statements
from tinyjobs.backends.sql.time import Now, StoreTime
from tinyjobs.core.job import ClaimRequest, Job, Recorded, ScheduleMove
from tinyjobs.core.transitions import Outcome


class PlainDialect:
    """See `Dialect`. `returning` False uses the claim for engines that cannot answer rows from an update."""

    def __init__(self, statements: Statements, *, returning: bool = True) -> None:
        self.statements = statements
        self.returning = returning

    def __getitem__(self, name: str) -> Statement:
        """A statement by its name."""
        return self.statements[name]

    async def insert(self, connection: Connection, job: Job, now: Now) -> bool:
        """One statement."""
        return bool(await connection.execute(self.statements["insert"], insert_row(job, now or 0.0)))

    async def insert_many(self, connection: Connection, jobs: Sequence[Job], now: Now) -> int:
        """One statement, run once a job."""
        return await connection.many(self.statements["insert"], [insert_row(job, now or 0.0) for job in jobs])

    async def record(self, connection: Connection, outcomes: Sequence[Outcome], time: StoreTime) -> list[bool]:
        """Two statements for what is alike, two or three for the rest. Runs inside the caller's transaction."""
        return await record(self.statements, connection, outcomes, time.told())

    async def record_and_claim(
        self, connection: Connection, outcomes: Sequence[Outcome], request: ClaimRequest | None, time: StoreTime
    ) -> Recorded:
        """What ended is written and what comes next is taken, all or nothing. A lease begins when the lock is held."""
        async with connection.transaction():
            now = time.told()
            applied = await record(self.statements, connection, outcomes, now) if outcomes else []
            claimed = None
            if request is not None:
                claimed = await claim(self.statements, connection, request, now, returning=self.returning)
        return Recorded(applied, claimed)

    async def look(self, connection: Connection, queues: Sequence[str], time: StoreTime) -> tuple[bool, float | None]:
        """One read."""
        return await look(self.statements, connection, queues)

    async def cancel(self, connection: Connection, job_id: str, now: Now) -> bool:
        """Two statements in one transaction."""
        async with connection.transaction():
            await connection.execute(self.statements["cancel_execution"], [now, job_id])
            return bool(await connection.execute(self.statements["cancel"], [now, job_id]))

    async def requeue(self, connection: Connection, job_id: str, now: Now) -> bool:
        """One statement."""
        return bool(await connection.execute(self.statements["requeue"], [now, job_id]))

    async def present(self, connection: Connection, time: StoreTime) -> float:
        """The app's clock, without a question."""
        return time.told()

    async def advance(self, connection: Connection, moves: Sequence[ScheduleMove]) -> list[bool]:
        """A statement for each."""
        statement = self.statements["schedule_advance"]
        return [
            bool(await connection.execute(statement, [move.next_run_at, move.error, move.name, move.expected]))
            for move in moves
        ]
