"""Verbs of schedules: what the store keeps of them, and firing by compare and swap. Written once."""

from collections.abc import Sequence

from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.produce import enqueue_many
from tinyjobs.backends.sql.rows import schedule_from_row
from tinyjobs.backends.sql.time import Now
from tinyjobs.core.job import Job, ScheduleState


async def schedules(dialect: Dialect, connection: Connection) -> list[ScheduleState]:
    """Every schedule, by name."""
    return [schedule_from_row(row) for row in await connection.fetch(dialect["schedules"])]


async def register(dialect: Dialect, connection: Connection, states: Sequence[ScheduleState]) -> None:
    """Add or update schedules; see the statement for what is kept."""
    rows = [(state.name, state.cron, state.timezone, state.next_run_at) for state in states]
    async with connection.transaction():
        await connection.many(dialect["schedule_register"], rows)


async def fire(
    dialect: Dialect,
    connection: Connection,
    name: str,
    *,
    expected: float,
    next_run_at: float,
    jobs: Sequence[Job],
    now: Now,
) -> list[Job] | None:
    """Advance and enqueue in one transaction, or, when somebody else was first, neither."""
    async with connection.transaction():
        if not await connection.execute(dialect["schedule_advance"], [next_run_at, name, expected]):
            return None
        if not jobs:
            return []
        kept = await enqueue_many(dialect, connection, jobs, now)
        await connection.execute(dialect["schedule_fired"], [now, kept[-1].id, name])
        return kept
