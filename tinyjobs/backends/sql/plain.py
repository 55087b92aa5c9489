"""The dialect of any engine: several statements, one transaction around them."""

from collections.abc import Sequence

from tinyjobs.backends.sql.claim import claim, look
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.record import record
from tinyjobs.backends.sql.rows import as_json, insert_row
from tinyjobs.backends.sql.statements import Statement, Statements
from tinyjobs.backends.time import Now, StoreTime
from tinyjobs.core.job import ClaimRequest, Job, Recorded, ScheduleMove
from tinyjobs.core.transitions import EXPIRED, Outcome


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
        """Three statements for what is alike, three or four for the rest. Runs inside the caller's transaction."""
        owner = min(outcome.job_id for outcome in outcomes) if outcomes else None
        return await record(self.statements, connection, outcomes, time.told(), owner)

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
        """Three statements in one transaction."""
        async with connection.transaction():
            await connection.execute(self.statements["cancel_execution"], [now, job_id])
            await connection.execute(self.statements["tally_cancel"], [now, job_id])
            return bool(await connection.execute(self.statements["cancel"], [now, job_id]))

    async def requeue(self, connection: Connection, job_id: str, now: Now) -> bool:
        """Two statements in one transaction."""
        async with connection.transaction():
            if not await connection.execute(self.statements["tally_requeue"], [now, job_id]):
                return False
            return bool(await connection.execute(self.statements["requeue"], [now, job_id]))

    async def delete(self, connection: Connection, job_id: str, now: Now) -> bool:
        """Statements that write, in one transaction: on SQLite one that has read may not be able to write any more."""
        async with connection.transaction():
            if not await connection.execute(self.statements["tally_delete"], [now, job_id]):
                return False
            await connection.execute(self.statements["purge_executions"], [as_json([job_id])])
            return bool(await connection.execute(self.statements["purge_jobs"], [as_json([job_id])]))

    async def purge(self, connection: Connection, ids: Sequence[str], now: Now) -> int:
        """Three statements, in the caller's transaction."""
        packed = as_json(ids)
        await connection.execute(self.statements["purge_executions"], [packed])
        await connection.execute(self.statements["tally_purge"], [now, ids[0], packed])
        return await connection.execute(self.statements["purge_jobs"], [packed])

    async def end_unstarted(self, connection: Connection, ids: Sequence[str], now: Now) -> int:
        """Two statements in one transaction."""
        packed = as_json(ids)
        async with connection.transaction():
            await connection.execute(self.statements["tally_unstarted"], [now, ids[0], packed, now])
            return await connection.execute(self.statements["unstarted_end"], [now, EXPIRED, packed, now])

    async def fold(self, connection: Connection, now: Now) -> None:
        """A read; two statements in one transaction where there is something to fold."""
        minutes = [int((now or 0.0) // 60)] * 3
        if await connection.fetch(self.statements["fold_pick"], minutes):
            async with connection.transaction():
                await connection.execute(self.statements["fold_add"], minutes)
                await connection.execute(self.statements["fold_remove"], minutes)

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
