"""Verbs of workers: record and claim in one script, heartbeat, reap, the claim of one job. Every change is fenced."""

import json
import secrets
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tinyjobs.backends.redis.calls import Caller
from tinyjobs.backends.redis.control import whole
from tinyjobs.backends.redis.rows import as_told, claimed_job, job_from_row, outcome_row, whole_jobs
from tinyjobs.core import transitions
from tinyjobs.core.job import Claimed, ClaimRequest, Held, Job, Recorded, queue_order
from tinyjobs.core.transitions import Outcome

# A claim's answer in place of the next due instant: it has taken nothing yet, and there is more to look at.
_MORE = b"more"


def new_token() -> str:
    """What one claim is known by, for the case that its answer is lost."""
    return secrets.token_hex(8)


async def record(
    call: Caller,
    outcomes: Sequence[Outcome],
    request: ClaimRequest | None = None,
    *,
    token: str = "",
    before: str | None = None,
) -> Recorded:
    """Apply the outcomes whose claim still holds and make the claim, in one script. `before` bounds their leases.

    Of outcomes for one and the same claim the first counts and the others are stale, as if they had come later.
    """
    first: dict[tuple[str, int], int] = {}
    for place, outcome in enumerate(outcomes):
        first.setdefault((outcome.job_id, outcome.claim), place)
    places = list(first.values())
    results: list[bytes] = []
    rows = [outcome_row(outcomes[place], results) for place in places]
    asked = None if request is None else _asked(request, token)
    landed, present, next_due, *claimed = await call(
        "record", results, outcomes=rows or None, claim=asked, before=before
    )
    while next_due == _MORE:
        _, present, next_due, *claimed = await call("record", [], claim=asked)
    applied = [False] * len(outcomes)
    for number in range(len(places)) if not landed else (place - 1 for place in json.loads(landed)):
        applied[places[number]] = True
    if request is None:
        return Recorded(applied)
    jobs = _jobs(claimed, request.worker_id, float(present), request.lease)
    return Recorded(applied, Claimed(jobs, call.on_callers_clock(next_due, present)))


async def claimed_by(call: Caller, worker_id: str, token: str) -> list[Job]:
    """What a claim took whose answer was lost. If it has not reached the server yet, it will take nothing."""
    rows, *blobs = await call("claimed", worker=worker_id, token=token)
    return whole_jobs(rows, blobs)


async def claim_job(call: Caller, job_id: str, worker_id: str, lease: float, token: str) -> Job | None:
    """Take this job if it is queued and due."""
    present, *claimed = await call("claim_job", id=job_id, worker=worker_id, lease=repr(lease), token=token)
    jobs = _jobs(claimed, worker_id, float(present), lease)
    return jobs[0] if jobs else None


async def heartbeat(call: Caller, held: Sequence[Held], lease: float) -> Collection[Held]:
    """Lengthen the leases whose claim still holds; which those are."""
    packed = [(entry.job_id, str(entry.claim)) for entry in held]
    return [held[place - 1] for place in json.loads(await call("heartbeat", held=packed, lease=repr(lease)))]


async def reap(call: Caller, limit: int, own: Callable[[], Collection[Held]]) -> list[Job]:
    """Take back jobs whose lease has run out, by the same fenced step that records an outcome.

    A lease that is renewed between the look and that step is left alone.
    """
    before, rows = await call("expired", limit=str(limit))
    found = transitions.left_behind([job_from_row(row) for row in as_told(rows)], own)
    if not found:
        return []
    now = call.time.told()
    outcomes = [transitions.lost(job, now) for job in found]
    recorded = await record(call, outcomes, before=before.decode())
    taken = [job.id for job, applied in zip(found, recorded.applied, strict=True) if applied]
    return await whole(call, taken)


async def look(call: Caller, queues: Sequence[str], *, channel: str | None) -> tuple[bool, float | None]:
    """Whether a job of these queues (none: of any) is ready, and when the next delayed one comes due.

    `channel`: whoever asks is about to wait there for a wake-up if there is nothing; without the prefix.
    """
    ready, present, next_due = await call("look", queues=list(queues) or None, sleeps=channel)
    return bool(ready), call.on_callers_clock(next_due, present)


def _asked(request: ClaimRequest, token: str) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "worker": request.worker_id,
        "token": token,
        "limit": str(request.limit),
        "lease": repr(request.lease),
        "let_in": request.let_in,
    }
    if request.queues:
        asked["queues"] = list(dict.fromkeys(request.queues))
    room = request.room
    if room is not None and room.free < request.limit:
        asked["room"] = {"tasks": sorted(room.tasks), "free": str(room.free), "ahead": str(room.ahead)}
    return asked


def _jobs(claimed: Sequence[bytes], worker_id: str, started_at: float, lease: float) -> list[Job]:
    rows = as_told(claimed[0])
    jobs = [
        claimed_job(row, payload, worker_id, started_at, started_at + lease)
        for row, payload in zip(rows, claimed[1:], strict=True)
    ]
    jobs.sort(key=queue_order)
    return jobs
