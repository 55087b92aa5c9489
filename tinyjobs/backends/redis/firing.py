"""Verbs of schedules: what the store keeps of them, and firing by compare and swap."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinyjobs.backends.redis.calls import Caller
from tinyjobs.backends.redis.produce import answered, holders
from tinyjobs.backends.redis.rows import job_fields, schedule_fields, schedule_from_row
from tinyjobs.core.job import Job, ScheduleMove, ScheduleState
from tinyjobs.core.transitions import EXPIRED

# Schedules in one script at most, those that fire together with their jobs.
_PAGE = 500


async def schedules(call: Caller) -> list[ScheduleState]:
    """Every schedule, by name."""
    found: list[ScheduleState] = []
    while True:
        after = found[-1].name if found else None
        rows, *payloads = await call("schedules", after=after, limit=str(_PAGE))
        page = json.loads(rows)
        found += [schedule_from_row(row, payload) for row, payload in zip(page, payloads, strict=True)]
        if len(page) < _PAGE:
            return found


async def register(call: Caller, states: Sequence[ScheduleState]) -> int:
    """Add or change schedules; how many were not left as the code declares them."""
    written = 0
    for start in range(0, len(states), _PAGE):
        payloads: list[bytes] = []
        fields = [schedule_fields(state, payloads) for state in states[start : start + _PAGE]]
        written += await call("register_schedules", payloads, schedules=fields)
    return written


async def save(call: Caller, state: ScheduleState) -> bool:
    """Add or change one that is kept as data; False when the code declares it."""
    return bool(await register(call, [replace(state, source="data")]))


async def fire(call: Caller, moves: Sequence[ScheduleMove]) -> list[list[Job] | None]:
    """Move schedules on and keep their jobs, a bounded number in one script."""
    fired: list[list[Job] | None] = []
    batch: list[ScheduleMove] = []
    weight = 0
    for move in moves:
        if batch and weight + 1 + len(move.jobs) > _PAGE:
            fired += await _fire(call, batch)
            batch, weight = [], 0
        batch.append(move)
        weight += 1 + len(move.jobs)
    return fired + (await _fire(call, batch) if batch else [])


async def _fire(call: Caller, moves: Sequence[ScheduleMove]) -> list[list[Job] | None]:
    payloads: list[bytes] = []
    packed = [_move_fields(move, payloads) for move in moves]
    answer = await call("fire", payloads, moves=packed, expired=EXPIRED)
    held = holders(answer)
    made = {job.id: job for move in moves for job in move.jobs}
    return [
        answered(move.jobs, json.loads(ids), {**made, **held}) if ids else None
        for move, ids in zip(moves, json.loads(answer[0]), strict=True)
    ]


def _move_fields(move: ScheduleMove, payloads: list[bytes]) -> dict[str, Any]:
    jobs = []
    for job in move.jobs:
        payloads.append(job.payload or b"")
        jobs.append({**job_fields(job), "payload": len(payloads)})
    return {
        "name": move.name,
        "expected": repr(move.expected),
        "next_run_at": repr(move.next_run_at),
        "error": move.error or "",
        "jobs": jobs,
    }
