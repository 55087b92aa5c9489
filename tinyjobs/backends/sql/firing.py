"""Verbs of schedules: what the store keeps of them, and firing by compare and swap. Written once."""

from collections.abc import Sequence
from dataclasses import replace

from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.produce import enqueue_many
from tinyjobs.backends.sql.rows import schedule_from_row, schedule_row
from tinyjobs.backends.time import Now
from tinyjobs.core.job import Job, ScheduleMove, ScheduleState


async def schedules(dialect: Dialect, connection: Connection) -> list[ScheduleState]:
    """Every schedule, by name."""
    return [schedule_from_row(row) for row in await connection.fetch(dialect["schedules"])]


async def register(dialect: Dialect, connection: Connection, states: Sequence[ScheduleState]) -> None:
    """Add or change schedules; see the statement for what is kept. In the order of names, so that no two deadlock."""
    rows = [schedule_row(state) for state in sorted(states, key=lambda state: state.name)]
    async with connection.transaction():
        await connection.many(dialect["schedule_register"], rows)


async def save(dialect: Dialect, connection: Connection, state: ScheduleState) -> bool:
    """Add or change one that is kept as data; False when the code declares it."""
    row = schedule_row(replace(state, source="data"))
    return bool(await connection.execute(dialect["schedule_register"], row))


async def delete(dialect: Dialect, connection: Connection, name: str) -> bool:
    """Forget a schedule."""
    return bool(await connection.execute(dialect["schedule_delete"], [name]))


async def fire(
    dialect: Dialect, connection: Connection, moves: Sequence[ScheduleMove], now: Now
) -> list[list[Job] | None]:
    """Advance and enqueue in one transaction; a schedule that somebody else has moved is left as it is."""
    async with connection.transaction():
        moved = await dialect.advance(connection, moves)
        jobs = [job for move, is_mine in zip(moves, moved, strict=True) if is_mine for job in move.jobs]
        kept = iter(await enqueue_many(dialect, connection, jobs, now) if jobs else ())
        fired = [
            [next(kept) for _ in move.jobs] if is_mine else None for move, is_mine in zip(moves, moved, strict=True)
        ]
        await _note(dialect, connection, moves, fired, now)
    return fired


async def _note(
    dialect: Dialect,
    connection: Connection,
    moves: Sequence[ScheduleMove],
    fired: Sequence[Sequence[Job] | None],
    now: Now,
) -> None:
    """Keep what each schedule did last, and how many firings found its last job still active."""
    made, skipped = [], []
    for move, jobs in zip(moves, fired, strict=True):
        new = [job.id for job in jobs or () if not job.existing]
        if new:
            made.append((now, new[-1], move.name))
        if jobs and len(new) < len(jobs):
            skipped.append((len(jobs) - len(new), move.name))
    if made:
        await connection.many(dialect["schedule_fired"], made)
    if skipped:
        await connection.many(dialect["schedule_skipped"], skipped)
