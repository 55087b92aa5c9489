"""Verbs of workers: claim, record, heartbeat, reap. Every change is fenced by the claim. Written once."""

import json
import logging
from collections.abc import Collection, Sequence

from tinyjobs.backends.sql.connection import Connection, Row
from tinyjobs.backends.sql.record import record
from tinyjobs.backends.sql.rows import job_from_row, sound_job_from_row
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.core import transitions
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import StoreError
from tinyjobs.core.job import Claimed, ClaimRequest, Held, Job, Recorded
from tinyjobs.core.transitions import Outcome

logger = logging.getLogger("tinyjobs.store")

#: Delayed jobs let in by one claim at most, so that a flood of due jobs never makes one long write.
LET_IN = 500


async def claim(
    statements: Statements, connection: Connection, request: ClaimRequest, now: float, *, returning: bool = True
) -> Claimed:
    """Let due jobs in, then take the heads of the wanted queues. Runs inside the caller's transaction.

    `returning` False is the form for a SQLite that cannot answer rows from an update.
    """
    if request.let_in:
        await connection.execute(statements["let_in"], [now, LET_IN])
    jobs: list[Job] = []
    has_spoilt = request.limit > 0
    while has_spoilt and not jobs:
        rows = await _take(statements, connection, request, now, returning)
        jobs, has_spoilt = await _sound(statements, connection, rows, now)
    jobs.sort(key=_queue_order)
    if len(jobs) >= request.limit > 0:
        return Claimed(jobs)
    _, next_due = await look(statements, connection, request.queues)
    return Claimed(jobs, next_due)


async def look(statements: Statements, connection: Connection, queues: Sequence[str] = ()) -> tuple[bool, float | None]:
    """Whether a job of these queues (none: of any) is ready, and when the next delayed one comes due. Reads only."""
    if queues:
        rows = await connection.fetch(statements["next_due_of"], [json.dumps(queues)])
    else:
        rows = await connection.fetch(statements["next_due"])
    ((ready, next_due),) = rows
    return bool(ready), next_due


async def claim_job(
    statements: Statements, connection: Connection, job_id: str, worker_id: str, lease: float, clock: Clock
) -> Job | None:
    """Take this job if it is queued and due."""
    async with connection.transaction():
        now = clock.now()
        if not await connection.execute(statements["claim_one"], [worker_id, now, now + lease, job_id, now]):
            return None
        ((*row,),) = await connection.fetch(statements["get"], [job_id])
        return job_from_row(row)


async def record_and_claim(
    statements: Statements,
    connection: Connection,
    outcomes: Sequence[Outcome],
    request: ClaimRequest | None,
    clock: Clock,
    *,
    returning: bool = True,
) -> Recorded:
    """What ended is written and what comes next is taken, all or nothing. A lease begins when the lock is held."""
    async with connection.transaction():
        now = clock.now()
        applied = await record(statements, connection, outcomes, now) if outcomes else []
        claimed = await claim(statements, connection, request, now, returning=returning) if request else None
    return Recorded(applied, claimed)


async def heartbeat(
    statements: Statements, connection: Connection, held: Sequence[Held], until: float
) -> Collection[Held]:
    """Lengthen the leases whose claim still holds; which those are."""
    packed = json.dumps([(entry.job_id, entry.claim) for entry in held])
    async with connection.transaction():
        ((places,),) = await connection.fetch(statements["record_held"], [packed])
        await connection.execute(statements["heartbeat"], [until, packed])
    return [held[place] for place in json.loads(places)]


async def reap(
    statements: Statements, connection: Connection, expired_before: float, limit: int, now: float
) -> list[Job]:
    """Take back jobs whose lease ended before `expired_before`, by the same fenced step that records an outcome."""
    # Nearly always there is nothing, and a read that finds nothing leaves the write lock alone.
    if not await connection.fetch(statements["expired"], [expired_before, 1]):
        return []
    async with connection.transaction():
        rows = await connection.fetch(statements["expired"], [expired_before, limit])
        jobs, _ = await _sound(statements, connection, rows, now)
        outcomes = [transitions.lost(job, now) for job in jobs]
        await record(statements, connection, outcomes, now)
        ids = json.dumps([outcome.job_id for outcome in outcomes])
        return [job_from_row(row) for row in await connection.fetch(statements["by_ids"], [ids])]


async def _sound(
    statements: Statements, connection: Connection, rows: Sequence[Row], now: float
) -> tuple[list[Job], bool]:
    """The jobs of these rows, and whether there were others: rows that somebody spoilt, failed here for good.

    Left where it is, such a row would be met again by every claim, and no other job would ever be taken.
    """
    jobs: list[Job] = []
    spoilt: list[tuple[float, str, object]] = []
    for row in rows:
        try:
            jobs.append(sound_job_from_row(row))
        except StoreError as error:
            logger.error("%s It counts as failed.", error)
            spoilt.append((now, str(error), row[0]))
    if spoilt:
        await connection.many(statements["set_aside"], spoilt)
    return jobs, bool(spoilt)


async def _take(
    statements: Statements, connection: Connection, request: ClaimRequest, now: float, returning: bool
) -> list[Row]:
    queues = json.dumps(request.queues) if request.queues else None
    taking = [request.worker_id, now, now + request.lease]
    if request.room is None:
        form, picking = "claim", [queues, queues, request.limit, request.limit]
    else:
        tasks = json.dumps(sorted(request.room.tasks))
        form = "claim_room"
        picking = [queues, queues, tasks, request.room.ahead, request.room.free, request.limit]
    if returning:
        return await connection.fetch(statements[form], [*taking, *picking])
    ids = json.dumps([row[0] for row in await connection.fetch(statements[form + "_pick"], picking)])
    await connection.execute(statements["claim_take"], [*taking, ids])
    return await connection.fetch(statements["by_ids"], [ids])


def _queue_order(job: Job) -> tuple[int, float, str]:
    return -job.priority, job.run_at, job.id
