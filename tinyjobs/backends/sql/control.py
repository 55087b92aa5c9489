"""Verbs of people and programs that look at jobs and steer them: get, cancel, retry, figures. Written once."""

from collections import defaultdict
from typing import Any

from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.rows import execution_from_row, job_from_row
from tinyjobs.backends.time import Now, StoreTime
from tinyjobs.core.job import Execution, Job, QueueStats, Stats, running_execution
from tinyjobs.core.status import JobStatus


async def get(dialect: Dialect, connection: Connection, job_id: str) -> Job | None:
    """The job whole."""
    rows = await connection.fetch(dialect["get"], [job_id])
    return job_from_row(rows[0]) if rows else None


async def executions(dialect: Dialect, connection: Connection, job_id: str) -> list[Execution]:
    """The attempts in order. One under way stands in the job's own row, and is shown from there."""
    job = await get(dialect, connection, job_id)
    if job is None:
        return []
    found = [execution_from_row(row) for row in await connection.fetch(dialect["executions"], [job_id])]
    if job.status is JobStatus.RUNNING and all(execution.claim != job.claims for execution in found):
        found.append(running_execution(job))
    return found


async def neighbours(dialect: Dialect, connection: Connection, job_id: str) -> tuple[str | None, str | None]:
    """The ids next to this one: the newer and the older."""
    ((newer, older),) = await connection.fetch(dialect["neighbours"], [job_id, job_id])
    return newer, older


async def cancel(dialect: Dialect, connection: Connection, job_id: str, now: Now) -> bool:
    """End a job that has not ended; its running attempt is marked and can report no more."""
    return await dialect.cancel(connection, job_id, now)


async def requeue(dialect: Dialect, connection: Connection, job_id: str, now: Now) -> bool:
    """Put a failed or cancelled job back, unless its key is taken by now."""
    return await dialect.requeue(connection, job_id, now)


async def counts(dialect: Dialect, connection: Connection) -> dict[str, int]:
    """How many jobs of each status; statuses nothing stands in are there with 0."""
    found = {status.value: 0 for status in JobStatus}
    for status, count in await connection.fetch(dialect["counts"]):
        found[status] += count
    return found


async def stats(dialect: Dialect, connection: Connection, time: StoreTime) -> Stats:
    """The figures of the store, from partial indexes: what they cost follows the live jobs, not the finished ones."""
    now = await dialect.present(connection, time)
    queues: dict[str, dict[str, Any]] = defaultdict(lambda: {"oldest_due": None})
    for queue, kind, count, oldest in await connection.fetch(dialect["queue_stats"], [now]):
        figures = queues[queue]
        figures[kind] = figures.get(kind, 0) + count
        if kind in ("ready", "held") and oldest is not None:
            figures["oldest_due"] = min(oldest, figures["oldest_due"] or oldest)
    by_task: dict[str, int] = dict(await connection.fetch(dialect["queued_tasks"]))
    ((expired,),) = await connection.fetch(dialect["expired_count"], [now])
    ((_, next_due),) = await connection.fetch(dialect["next_due"])
    return Stats(
        now=now,
        queues=[QueueStats(name=name, **figures) for name, figures in sorted(queues.items())],
        by_status=await counts(dialect, connection),
        queued_by_task=by_task,
        expired_leases=expired,
        next_due=next_due,
    )
