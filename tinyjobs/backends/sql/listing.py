"""The verb that lists jobs: pages in the order of ids, along the index of what is asked for. Written once.

A page that is asked for by more than an index finds is a bounded look: so many rows along an index, and of those the
ones that fit.
"""

from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.rows import job_from_row
from tinyjobs.core.ids import check_cursor
from tinyjobs.core.job import Job, Page
from tinyjobs.core.status import JobStatus

# Greater than every id, so that a first page is a page like any other.
_NEWEST = "~"
# Rows that one statement looks at for a text, where the caller sets no bound: it goes on until the page is full.
_STEP = 10_000


async def list_jobs(
    dialect: Dialect,
    connection: Connection,
    *,
    status: JobStatus | None,
    queue: str | None,
    task: str | None,
    text: str | None,
    limit: int,
    cursor: str | None,
    scan: int | None,
) -> Page:
    """A page, newest first, by the id after which it begins."""
    check_cursor(cursor)
    before = cursor or _NEWEST
    has_own_index = task is None and (status is None or queue is None) and status is not JobStatus.SUCCESS
    if not text and (scan is None or has_own_index):
        return await _page(dialect, connection, status, queue, task, min(limit, scan or limit), before)
    needle = _needle(text) if text else None
    if text and needle is None:
        return Page([])
    if scan is not None:
        return await _look(dialect, connection, status, queue, task, needle, limit, before, scan)
    found: list[Job] = []
    while True:
        page = await _look(dialect, connection, status, queue, task, needle, limit + 1 - len(found), before, _STEP)
        found += page.jobs
        if len(found) > limit:
            return Page(found[:limit], found[limit - 1].id)
        if page.cursor is None:
            return Page(found)
        before = page.cursor


async def _page(
    dialect: Dialect,
    connection: Connection,
    status: JobStatus | None,
    queue: str | None,
    task: str | None,
    limit: int,
    before: str,
) -> Page:
    if status is None and queue is not None:
        rows = await connection.fetch(dialect["list_queue"], [queue, before, task, task, limit + 1])
    else:
        name = f"list_{status.value}" if status else "list_all"
        rows = await connection.fetch(dialect[name], [before, queue, queue, task, task, limit + 1])
    jobs = [job_from_row(row) for row in rows[:limit]]
    return Page(jobs, jobs[-1].id if len(rows) > limit else None)


async def _look(
    dialect: Dialect,
    connection: Connection,
    status: JobStatus | None,
    queue: str | None,
    task: str | None,
    needle: bytes | None,
    limit: int,
    before: str,
    scan: int,
) -> Page:
    """Of the next `scan` rows of a status, or else of a queue, or else of all, those that fit.

    What succeeded is nearly everything, so it has no index in this order and is sought among the others.
    """
    scan = max(scan, 1)
    along: tuple[str, ...]
    if status is not None and status is not JobStatus.SUCCESS:
        along, status = (f"scan_{status.value}",), None
    elif queue is not None:
        along, queue = ("scan_queue", queue), None
    else:
        along = ("scan_all",)
    asked = [*along[1:], before, scan + 1, scan, status and status.value, queue, task, needle, limit + 1]
    rows = await connection.fetch(dialect[along[0]], asked)
    last, following = rows[0][:2]
    jobs = [job_from_row(row[2:]) for row in rows if row[2] is not None and row[2] != following]
    if len(jobs) > limit:
        return Page(jobs[:limit], jobs[limit - 1].id)
    return Page(jobs, None if following is None else last)


def _needle(text: str) -> bytes | None:
    """A text as it is sought, byte by byte, ASCII letters in lower case; None for one that no job can hold."""
    try:
        needle = text.encode().lower()
    except UnicodeEncodeError:
        return None
    return None if b"\0" in needle else needle
