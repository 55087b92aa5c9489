"""The list of jobs: newest first, by status, queue and task, with a search that looks at a bounded number of them."""

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

from tinyjobs.core.ids import is_job_id
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job, Page
from tinyjobs.core.status import JobStatus
from tinyjobs.dashboard.pages.asking import Query
from tinyjobs.dashboard.pages.values import plain_call, row
from tinyjobs.dashboard.services import Desk

PAGE = 50
#: The most jobs that a page looks at for a text or a task; nobody waits for a walk through all of them.
SCANNED = 10_000
#: How many jobs, and bytes, of arguments a page reads at most to tell whether a text stands in what is shown of them.
OPENED = 500
OPENED_BYTES = 10_000_000


def jobs(desk: Desk, query: Query) -> dict[str, Any]:
    """The page. `scanned` is how many jobs it has looked at most, where that may have left some out."""
    filters = {"status": query.status(), "queue": query.text("queue"), "task": query.text("task")}
    text, cursor = query.text("q"), query.cursor()
    can_search = desk.capabilities.search
    is_search = bool(filters["task"] or (text and can_search))
    # No index has these in the order of a page, so they are sought among the others, and a long row of those may stand
    # in front of them.
    is_walk = filters["status"] is JobStatus.SUCCESS or bool(filters["status"] and filters["queue"])
    is_scan = is_search or is_walk
    found = Page([])
    if not text:
        found = finish(desk.store.list(**_wanted(filters, cursor, PAGE, is_scan=is_scan)))
    elif can_search:
        found = (_in_all if query.sees_values else _in_names)(desk, filters, text, cursor)
    rows: Sequence[Job] = found.jobs
    if text and is_job_id(text.lower()) and cursor is None and all(job.id != text.lower() for job in rows):
        rows = [*_by_id(desk, text.lower(), filters), *rows]
    return {
        "now": desk.now(),
        "jobs": [row(job) for job in rows],
        "cursor": found.cursor,
        "has_newer": cursor is not None,
        "filters": {**filters, "q": text},
        "scanned": SCANNED if is_search or (is_walk and found.cursor and len(found.jobs) < PAGE) else None,
        "can_search": can_search,
        "statuses": [status.value for status in JobStatus],
        "queues": list(desk.queue_names())[:200],
        "tasks": list(desk.task_names())[:200],
    }


def _wanted(filters: dict[str, Any], cursor: str | None, limit: int, *, is_scan: bool = True) -> dict[str, Any]:
    return {**filters, "limit": limit, "cursor": cursor, **({"scan": SCANNED} if is_scan else {})}


def _in_names(desk: Desk, filters: dict[str, Any], text: str, cursor: str | None) -> Page:
    """The jobs that have a text in their ids or tasks. The store is not asked for it, since it looks at arguments."""
    window = finish(desk.store.list(**_wanted(filters, cursor, SCANNED)))
    return _first(window, [job for job in window.jobs if _is_named(job, text)])


def _in_all(desk: Desk, filters: dict[str, Any], text: str, cursor: str | None) -> Page:
    """The jobs that have a text in their ids, tasks or arguments, where people can see it.

    Else a search could guess what the mask hides. Nor does a page end sooner for what is hidden: where some of the
    jobs that the store found are left out, all that it has to find takes their place.
    """
    reader = _Reader(desk, text)
    page = finish(desk.store.list(**_wanted(filters, cursor, PAGE), text=text))
    if all(reader.sees(job) for job in page.jobs):
        return page
    window = finish(desk.store.list(**_wanted(filters, cursor, SCANNED), text=text))
    return _first(window, list(islice(filter(reader.sees, window.jobs), PAGE + 1)))


def _first(window: Page, jobs: Sequence[Job]) -> Page:
    """A page of some of the jobs that were looked at."""
    shown = list(jobs[:PAGE])
    return Page(shown, shown[-1].id if len(jobs) > PAGE else window.cursor)


def _by_id(desk: Desk, job_id: str, filters: dict[str, Any]) -> list[Job]:
    """The job of an id that was typed whole, however old it is."""
    job = finish(desk.store.get(job_id))
    fits = job is not None and all(value in (None, getattr(job, name)) for name, value in filters.items())
    return [job] if job is not None and fits else []


def _is_named(job: Job, text: str) -> bool:
    return text.lower() in job.id or text.lower() in job.task.lower()


class _Reader:
    """Reads the arguments of jobs that a store found, each once, for a text in what people can see of them."""

    def __init__(self, desk: Desk, text: str) -> None:
        self._desk = desk
        self._text = text
        self._known: dict[str, bool] = {}
        self._bytes = 0

    def sees(self, job: Job) -> bool:
        """Whether the text stands where people can see it. It does not in what there was no time to read."""
        if _is_named(job, self._text) or not self._desk.mask.patterns:
            return True
        if job.id not in self._known:
            if len(self._known) >= OPENED or self._bytes > OPENED_BYTES:
                return False
            self._known[job.id] = self._is_shown(job)
        return self._known[job.id]

    def _is_shown(self, job: Job) -> bool:
        whole = finish(self._desk.store.get(job.id))
        if whole is None or whole.payload is None or whole.codec != "json":
            return False
        self._bytes += len(whole.payload)
        if self._bytes > OPENED_BYTES:
            return False
        shown = plain_call(self._desk, job.task, whole.payload, self._desk.veil())
        if shown is None:
            return False
        texts = (json.dumps(shown, ensure_ascii=plain, separators=(",", ":")) for plain in (False, True))
        return any(self._text.lower() in found.lower() for found in texts)
