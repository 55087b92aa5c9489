"""Verbs of workers beside the claim: heartbeat, reap, the claim of one job. Every change is fenced. Written once."""

import json
from collections.abc import Callable, Collection, Sequence

from tinyjobs.backends.sql.claim import sound_jobs
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.rows import job_from_row
from tinyjobs.backends.time import Now, StoreTime
from tinyjobs.core import transitions
from tinyjobs.core.job import Held, Job


async def claim_job(
    dialect: Dialect, connection: Connection, job_id: str, worker_id: str, lease: float, time: StoreTime
) -> Job | None:
    """Take this job if it is queued and due."""
    async with connection.transaction():
        now = time.now()
        if not await connection.execute(dialect["claim_one"], [worker_id, now, now, lease, job_id, now]):
            return None
        ((*row,),) = await connection.fetch(dialect["get"], [job_id])
        return job_from_row(row)


async def heartbeat(
    dialect: Dialect, connection: Connection, held: Sequence[Held], lease: float, now: Now
) -> Collection[Held]:
    """Lengthen the leases whose claim still holds; which those are."""
    packed = json.dumps([(entry.job_id, entry.claim) for entry in held])
    async with connection.transaction():
        ((places,),) = await connection.fetch(dialect["record_held"], [packed])
        await connection.execute(dialect["heartbeat"], [now, lease, packed])
    return [held[place] for place in json.loads(places)]


async def reap(
    dialect: Dialect,
    connection: Connection,
    expired_before: Now,
    limit: int,
    own: Callable[[], Collection[Held]],
    time: StoreTime,
) -> list[Job]:
    """Take back jobs whose lease ended before `expired_before`, by the same fenced step that records an outcome."""
    # Nearly always there is nothing, and a read that finds nothing leaves the write lock alone.
    if not await connection.fetch(dialect["expired"], [expired_before, 1]):
        return []
    async with connection.transaction():
        rows = await connection.fetch(dialect["expired"], [expired_before, limit])
        now = time.told()
        jobs, _ = await sound_jobs(dialect.statements, connection, rows, now)
        outcomes = [transitions.lost(job, now) for job in transitions.left_behind(jobs, own)]
        await dialect.record(connection, outcomes, time)
        ids = json.dumps([outcome.job_id for outcome in outcomes])
        return [job_from_row(row) for row in await connection.fetch(dialect["by_ids"], [ids])]
