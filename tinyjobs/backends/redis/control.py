"""Verbs of people and programs that look at jobs and steer them: get, list, executions, figures."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinyjobs.backends.redis.calls import Caller
from tinyjobs.backends.redis.rows import as_told, execution_from_text, job_from_row, paired, whole_jobs
from tinyjobs.core.ids import check_cursor
from tinyjobs.core.job import Execution, Job, Page, QueueStats, Stats, running_execution
from tinyjobs.core.status import ExecutionStatus, JobStatus

# How many entries of an index one script is asked for at most.
_PAGE = 500


async def get(call: Caller, job_id: str) -> Job | None:
    """The job whole."""
    jobs = await whole(call, [job_id])
    return jobs[0] if jobs else None


async def whole(call: Caller, ids: Sequence[str]) -> list[Job]:
    """The jobs of these ids, without those that are not there. A script for each few megabytes of them."""
    found: list[Job] = []
    left = ids
    while left:
        looked, rows, *blobs = await call("get", ids=left)
        found += whole_jobs(rows, blobs)
        left = left[looked:]
    return found


async def executions(call: Caller, job_id: str) -> list[Execution]:
    """The attempts in order. One under way stands in the job's own hash, and is shown from there; so is the last one of
    a job that ended in success, for which its outcome writes nothing else.
    """
    rows, *texts = await call("executions", id=job_id)
    found = [execution_from_text(job_id, text) for text in texts]
    found.sort(key=lambda execution: execution.claim)
    for row in as_told(rows):
        job = job_from_row(row)
        if job.status is JobStatus.RUNNING:
            found.append(running_execution(job))
        elif job.status is JobStatus.SUCCESS:
            found.append(replace(running_execution(job), status=ExecutionStatus.SUCCESS, finished_at=job.finished_at))
    return found


async def list_jobs(
    call: Caller,
    *,
    status: JobStatus | None,
    queue: str | None,
    task: str | None,
    text: str | None,
    limit: int,
    cursor: str | None,
    scan: int | None,
) -> Page:
    """A page, newest first, by the id after which it begins. A rare job may take several scripts to be found.

    One job more than the page holds is looked for, which tells whether there is another page.
    """
    check_cursor(cursor)
    if text and not _can_be_kept(text):
        return Page([])
    jobs: list[Job] = []
    before, left = cursor, None if scan is None else max(scan, 1)
    while True:
        wanted = min(limit + 1 - len(jobs), _PAGE)
        rows, goes_on, looked = await call(
            "list", status=status, queue=queue, task=task, text=text or None, before=before, limit=str(wanted),
            scan=None if left is None else str(left),
        )  # fmt: skip
        jobs += [job_from_row(row) for row in as_told(rows)]
        before = goes_on.decode() or None
        left = None if left is None else left - looked
        if len(jobs) > limit:
            return Page(jobs[:limit], jobs[limit - 1].id if limit else None)
        if before is None or left == 0:
            return Page(jobs, before)


async def neighbours(call: Caller, job_id: str) -> tuple[str | None, str | None]:
    """The next newer and the next older id in the index of all jobs."""
    newer, older = await call("neighbours", id=job_id)
    return newer.decode() or None, older.decode() or None


async def counts(call: Caller) -> dict[str, int]:
    """How many jobs of each status; statuses nothing stands in are there with 0."""
    return _by_status(await call("counts"))


async def stats(call: Caller) -> Stats:
    """The figures, from counters that every transition keeps and the sizes of the sets.

    One script, and one more for each thousand of delayed jobs that have come due and were not let in yet.
    Where ready jobs of a queue have more than a thousand priorities, the oldest is that of the highest thousand.
    """
    now, counted, ready, due, oldest, *rest = await call("stats")
    oldest_due, next_place, tasks, expired, next_due, by_status = rest
    queues: dict[str, dict[str, Any]] = {}
    for name, count in paired(json.loads(counted)).items():
        kind, _, queue = name.partition("|")
        queues.setdefault(queue, {})[kind] = int(count)
    for queue, count in json.loads(ready):
        queues.setdefault(queue, {})["ready"] = int(count)
    for queue, instant in json.loads(oldest):
        queues[queue]["oldest_due"] = float(instant)
    _add_overdue(queues, due, oldest_due)
    while next_place:
        due, oldest_due, next_place = await call("more_stats", place=next_place.decode(), until_then=now.decode())
        _add_overdue(queues, due, oldest_due)
    return Stats(
        now=float(now),
        queues=[QueueStats(name=name, **figures) for name, figures in sorted(queues.items()) if any(figures.values())],
        by_status=_by_status(by_status),
        queued_by_task={task: int(count) for task, count in paired(json.loads(tasks)).items()},
        expired_leases=expired,
        next_due=float(next_due) if next_due else None,
    )


def _can_be_kept(text: str) -> bool:
    """Whether it is text; half of a surrogate pair occurs in no job."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _add_overdue(queues: dict[str, dict[str, Any]], counted: bytes, oldest: bytes) -> None:
    """Count jobs that have come due as ready. Between two scripts there may have come others."""
    for queue, count in json.loads(counted):
        figures = queues.setdefault(queue, {})
        found = min(int(count), figures.get("delayed", 0))
        figures["ready"] = figures.get("ready", 0) + found
        figures["delayed"] = figures.get("delayed", 0) - found
    for queue, instant in json.loads(oldest):
        figures = queues.setdefault(queue, {})
        figures["oldest_due"] = min(float(instant), figures.get("oldest_due", float(instant)))


def _by_status(told: bytes) -> dict[str, int]:
    return dict.fromkeys(map(str, JobStatus), 0) | dict(json.loads(told))
