"""Verbs that end and delete what nobody waits for any more: jobs past their expiry, old jobs, old results.

Each is one short write that looks first and leaves the write lock alone when it finds nothing. Whoever calls them goes
on until a batch comes back short. Ages are in seconds, and counted by the clock that decides in the store.
"""

from tinyjobs.backends.sql.claim import sound_jobs
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.rows import as_json
from tinyjobs.backends.time import Now, StoreTime
from tinyjobs.core.job import Job
from tinyjobs.core.status import JobStatus


async def end_unstarted(dialect: Dialect, connection: Connection, limit: int, time: StoreTime) -> list[Job]:
    """End jobs that have not started by their expiry; each as it stands afterwards."""
    if not await connection.fetch(dialect["unstarted"], [time.now(), 1]):
        return []
    async with connection.transaction():
        now = time.now()
        ids = [row[0] for row in await connection.fetch(dialect["unstarted"], [now, limit])]
        if not ids:
            return []
        await dialect.end_unstarted(connection, ids, now)
        rows = await connection.fetch(dialect["by_ids"], [as_json(ids)])
        jobs, _ = await sound_jobs(dialect.statements, connection, rows, now)
    return jobs


async def claim_sweep(dialect: Dialect, connection: Connection, interval: float, time: StoreTime) -> bool:
    """Whether the caller is the one to sweep now; then nobody else is for as long as `interval`."""
    now = await dialect.present(connection, time)
    if await connection.fetch(dialect["sweep_recent"], [now, interval]):
        return False
    return bool(await connection.execute(dialect["sweep_claim"], [repr(now), interval]))


async def purge(
    dialect: Dialect, connection: Connection, status: JobStatus, older_than: float, limit: int, time: StoreTime
) -> int:
    """Delete the oldest of the ended jobs with their executions; how many there were."""
    ended_by = await dialect.present(connection, time) - older_than
    if not await connection.fetch(dialect["purge_pick"], [status.value, ended_by, 1]):
        return 0
    async with connection.transaction():
        found = await connection.fetch(dialect["purge_pick"], [status.value, ended_by, limit])
        return await dialect.purge(connection, [row[0] for row in found], time.now()) if found else 0


async def purgeable(
    dialect: Dialect, connection: Connection, status: JobStatus, older_than: float, time: StoreTime
) -> int:
    """How many jobs `purge` would delete, all batches together."""
    ended_by = await dialect.present(connection, time) - older_than
    ((count,),) = await connection.fetch(dialect["purge_count"], [status.value, ended_by])
    return int(count)


async def delete(dialect: Dialect, connection: Connection, job_id: str, now: Now) -> bool:
    """Delete one ended job with its executions; False if it has not ended, or a waiting job names it."""
    return await dialect.delete(connection, job_id, now)


async def drop_results(
    dialect: Dialect,
    connection: Connection,
    task: str,
    older_than: float,
    *,
    since: float,
    limit: int,
    time: StoreTime,
) -> tuple[int, float]:
    """Drop the oldest results of a task; how many, and the end up to which there are none left."""
    ended_by = await dialect.present(connection, time) - older_than
    # Read without the lock: on the first pass that may be a walk through everything the store keeps.
    found = await connection.fetch(dialect["results_pick"], [since, ended_by, task, limit])
    if not found:
        return 0, ended_by
    ids = as_json([row[0] for row in found])
    dropped = await connection.execute(dialect["results_drop"], [ids])
    return dropped, ended_by if len(found) < limit else found[-1][1]
