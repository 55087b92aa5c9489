"""The claim in its plain form: let due jobs in, then take the heads of the served queues. Fenced like every change."""

import json
import logging
from collections.abc import Sequence

from tinyjobs.backends.sql.connection import Connection, Row
from tinyjobs.backends.sql.rows import sound_job_from_row
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.backends.time import Now
from tinyjobs.core.errors import StoreError
from tinyjobs.core.job import Claimed, ClaimRequest, Job, queue_order

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
        jobs, has_spoilt = await sound_jobs(statements, connection, rows, now)
    jobs.sort(key=queue_order)
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


async def sound_jobs(
    statements: Statements, connection: Connection, rows: Sequence[Row], now: Now
) -> tuple[list[Job], bool]:
    """The jobs of these rows, and whether there were others: rows that somebody spoilt, failed here for good.

    Left where it is, such a row would be met again by every claim, and no other job would ever be taken.
    """
    jobs: list[Job] = []
    spoilt: list[tuple[Now, str, object]] = []
    for row in rows:
        try:
            jobs.append(sound_job_from_row(row))
        except StoreError as error:
            logger.error("%s It counts as failed.", error)
            spoilt.append((now, str(error), row[0]))
    if spoilt:
        async with connection.transaction():
            await connection.many(statements["tally_set_aside"], [(job_id, now) for _, _, job_id in spoilt])
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
