"""Verbs that bring jobs into a SQL store. Written once; they run on whatever connection they are given."""

from collections.abc import Sequence
from dataclasses import replace

from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.rows import as_json, job_from_row
from tinyjobs.backends.time import Now, StoreTime
from tinyjobs.core.errors import StoreBusyError
from tinyjobs.core.job import Job
from tinyjobs.core.transitions import may_expire

# A holder may end between the refused insert and the read of it, so a few rounds; more means something else is wrong.
_TRIES = 3
#: Rows of one statement run; a bulk enqueue of any size stays a series of bounded statements.
BATCH = 5_000

type _Identity = tuple[str | None, str | None]


async def enqueue(dialect: Dialect, connection: Connection, job: Job, now: Now) -> Job:
    """One insert, and a read of the holder only when its key was taken. No transaction of its own."""
    for _ in range(_TRIES):
        if await dialect.insert(connection, job, now):
            return job
        holders = await _holders(dialect, connection, [job], now)
        if job.key is not None and job.key in holders:
            return replace(holders[job.key], existing=True)
    raise _undecided(job)


async def enqueue_many(dialect: Dialect, connection: Connection, jobs: Sequence[Job], now: Now) -> list[Job]:
    """All of the jobs or none. Keyed jobs are written in key order, so two bulk enqueues cannot deadlock."""
    first_of: dict[_Identity, Job] = {}
    for job in jobs:
        first_of.setdefault(_identity(job), job)
    wanted = sorted(first_of.values(), key=lambda job: job.key or "")
    async with connection.transaction():
        kept = await _insert(dialect, connection, wanted, now)
    answers = []
    for job in jobs:
        answer = kept[_identity(job)]
        answers.append(replace(answer, existing=True) if answer.id != job.id else answer)
    return answers


def _identity(job: Job) -> _Identity:
    """What makes two jobs of one call the same: their key; without one nothing does. A key may look like an id."""
    return (job.key, None) if job.key is not None else (None, job.id)


async def _insert(dialect: Dialect, connection: Connection, jobs: Sequence[Job], now: Now) -> dict[_Identity, Job]:
    kept = {_identity(job): job for job in jobs}
    for start in range(0, len(jobs), BATCH):
        missing = list(jobs[start : start + BATCH])
        for _ in range(_TRIES):
            if await dialect.insert_many(connection, missing, now) == len(missing):
                missing = []
                break
            holders = await _holders(dialect, connection, missing, now)
            kept.update({_identity(holder): holder for holder in holders.values()})
            missing = [job for job in missing if job.key is not None and job.key not in holders]
            if not missing:
                break
        if missing:
            raise _undecided(missing[0])
    return kept


async def holder(dialect: Dialect, connection: Connection, key: str, time: StoreTime) -> Job | None:
    """The active job that holds a key. One that will not start any more holds none, though nobody has ended it yet."""
    found = await connection.fetch(dialect["holders"], [as_json([key])])
    job = job_from_row(found[0]) if found else None
    if job is None or not may_expire(job):
        return job
    return job if (job.expires_at or 0.0) > await dialect.present(connection, time) else None


async def _holders(dialect: Dialect, connection: Connection, jobs: Sequence[Job], now: Now) -> dict[str, Job]:
    """Who holds the keys of these jobs. What will not start any more is ended first, and so holds none."""
    keys = as_json([job.key for job in jobs if job.key is not None])
    found = [job_from_row(row) for row in await connection.fetch(dialect["holders"], [keys])]
    late = [job.id for job in found if may_expire(job)]
    if late and await dialect.end_unstarted(connection, late, now):
        found = [job_from_row(row) for row in await connection.fetch(dialect["holders"], [keys])]
    return {job.key: job for job in found if job.key is not None}


def _undecided(job: Job) -> StoreBusyError:
    return StoreBusyError(
        f"The key {job.key!r} changed hands {_TRIES} times while this enqueue looked at it. Try again."
    )
