"""Verbs for whoever watches over a store: which workers it sees, what ended by the minute. Written once."""

import json
import math

from tinyjobs.backends.sql.connection import Connection, Row
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.time import StoreTime
from tinyjobs.core.watching import FORGOTTEN_AFTER, Tally, WorkerSeen

# In minutes.
_LONGEST_SPAN = 15


async def beat(dialect: Dialect, connection: Connection, worker: WorkerSeen, time: StoreTime) -> None:
    """Write the worker's own row anew."""
    now = time.now()
    told = time.told() if now is None else now
    row = (
        worker.worker_id, worker.host, worker.pid, worker.version, json.dumps(worker.queues), worker.threads,
        worker.coroutines, worker.running, worker.is_stopping, worker.started_at, worker.scheduled_at, now, told,
    )  # fmt: skip
    await connection.execute(dialect["beat"], row)


async def sign_off(dialect: Dialect, connection: Connection, worker_id: str) -> None:
    """Delete the worker's row."""
    await connection.execute(dialect["sign_off"], [worker_id])


async def workers(dialect: Dialect, connection: Connection, time: StoreTime) -> list[WorkerSeen]:
    """Those that were seen not too long ago, by when they started."""
    return [_worker(row) for row in await connection.fetch(dialect["workers"], [time.now(), FORGOTTEN_AFTER])]


async def tallies(dialect: Dialect, connection: Connection, since: float) -> list[Tally]:
    """Those of the span in which that instant lies, and later ones."""
    first = int(since // 60) - _LONGEST_SPAN + 1 if math.isfinite(since) and since > 0 else 0
    return [_tally(row) for row in await connection.fetch(dialect["tallies"], [first, since])]


async def tidy(dialect: Dialect, connection: Connection, time: StoreTime) -> None:
    """Fold old tallies, and forget workers that have been silent for long."""
    now = time.now()
    await dialect.fold(connection, now)
    if await connection.fetch(dialect["workers_silent"], [now, FORGOTTEN_AFTER]):
        await connection.execute(dialect["workers_forget"], [now, FORGOTTEN_AFTER])


def _tally(row: Row) -> Tally:
    return Tally(
        start=row[0] * 60.0,
        seconds=row[1] * 60.0,
        queue=row[2],
        succeeded=row[3],
        unsuccessful=row[4],
        cancelled=row[5],
        waited=row[6],
        ran=row[7],
        longest_wait=row[8],
        longest_run=row[9],
    )


def _worker(row: Row) -> WorkerSeen:
    return WorkerSeen(
        worker_id=row[0],
        host=row[1],
        pid=row[2],
        version=row[3],
        queues=tuple(json.loads(row[4])),
        threads=row[5],
        coroutines=row[6],
        running=row[7],
        is_stopping=bool(row[8]),
        started_at=row[9],
        scheduled_at=row[10],
        seen_at=row[11],
    )
