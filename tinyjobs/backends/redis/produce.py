"""Verbs that bring jobs into the store. Each script adds a bounded number of jobs, all or none."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinyjobs.backends.redis.calls import Caller
from tinyjobs.backends.redis.link import load_script
from tinyjobs.backends.redis.rows import job_fields, refused, whole_jobs
from tinyjobs.core.errors import StoreError
from tinyjobs.core.job import Job
from tinyjobs.core.transitions import EXPIRED

#: What one script adds at most, since the server does nothing else meanwhile.
BATCH = 1_000
_BATCH_BYTES = 16 * 2**20


async def enqueue(call: Caller, job: Job) -> Job:
    """Keep one job. One that is due at once and has nothing that most jobs have not goes by a leaner script."""
    if not _is_plain(job):
        return (await _enqueue(call, [job]))[0]
    now = call.time.now()
    words = (
        job.id, "" if now is None else repr(now), job.task, job.queue, job.priority, job.max_attempts,
        repr(job.created_at), job.codec, job.payload or b"",
    )  # fmt: skip
    try:
        await call.link.run(load_script("enqueue_one"), [call.tag], words)
    except UnicodeEncodeError as error:
        raise refused(error) from error
    return job


async def enqueue_many(call: Caller, jobs: Sequence[Job]) -> list[Job]:
    """Keep the jobs, answers in order. Up to a thousand of them are kept all or none.

    More go as several scripts, one after the other. If one of those fails, the error says how many are kept.
    """
    kept: list[Job] = []
    for batch in _batches(jobs):
        try:
            kept += await _enqueue(call, batch)
        except StoreError as error:
            if kept:
                error.add_note(f"Of the {len(jobs)} jobs of this call the first {len(kept)} are kept.")
            raise
    return kept


async def _enqueue(call: Caller, jobs: Sequence[Job]) -> Sequence[Job]:
    payloads = [job.payload or b"" for job in jobs]
    fields = [*map(job_fields, jobs)]
    if all(job.key is None for job in jobs):
        await call("enqueue", payloads, jobs=fields)
        return jobs
    answer = await call("enqueue_keyed", payloads, jobs=fields, expired=EXPIRED)
    return answered(jobs, json.loads(answer[0]), holders(answer))


async def holder(call: Caller, key: str) -> Job | None:
    """The active job that holds a key."""
    found = await call("holder", key=key)
    jobs = whole_jobs(found[0], found[1:])
    return jobs[0] if jobs else None


def holders(answer: Sequence[Any]) -> dict[str, Job]:
    """The jobs that came back because they hold a key, by id."""
    return {job.id: job for job in whole_jobs(answer[1], answer[2:])}


def answered(jobs: Sequence[Job], ids: Sequence[str], held: dict[str, Job]) -> list[Job]:
    """For each job itself, or the one that holds its key."""
    given = {job.id: job for job in jobs}
    return [
        job if job.id == found else replace(held.get(found) or given[found], existing=True)
        for job, found in zip(jobs, ids, strict=True)
    ]


def _is_plain(job: Job) -> bool:
    return (
        job.delay == 0.0
        and job.key is None
        and job.expires_in is None
        and job.expires_at is None
        and job.scheduled_for is None
        and job.metadata is None
        and job.runs_after is None
    )


def _batches(jobs: Sequence[Job]) -> list[list[Job]]:
    batches: list[list[Job]] = []
    size = _BATCH_BYTES
    for job in jobs:
        weight = len(job.payload or b"")
        if not batches or size + weight > _BATCH_BYTES or len(batches[-1]) == BATCH:
            batches.append([])
            size = 0
        size += weight
        batches[-1].append(job)
    return batches
