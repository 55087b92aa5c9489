"""The first page: the store in figures, who works on it, what a check finds, and the last hour and day as charts."""

from typing import Any

from tinyjobs.cli.figures import queue_row
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Stats
from tinyjobs.dashboard.pages import figures
from tinyjobs.dashboard.pages.asking import Query
from tinyjobs.dashboard.pages.workers import rows
from tinyjobs.dashboard.services import Desk
from tinyjobs.operations.check import as_json, in_order, is_healthy, judged, look

# A program has tens of tasks and queues; what has more of them is cut and says so.
_MOST_ROWS = 100
_MOST_WORKERS = 20


def overview(desk: Desk, query: Query) -> dict[str, Any]:
    """The page."""
    looked = finish(look(desk.store))
    stats = looked.stats
    found = judged(looked, desk.target.catalogue, desk.target.timetable, None, store_warnings=False)
    findings = in_order([*found, *desk.of_project()])
    kept = figures.tallies(desk, stats.now)
    queues = sorted(stats.queues, key=lambda queue: (-queue.ready, queue.name))
    tasks = sorted(stats.queued_by_task.items(), key=lambda item: (-item[1], item[0]))
    return {
        "now": stats.now,
        "by_status": dict(stats.by_status),
        "queues": [queue_row(queue, stats.now) for queue in queues[:_MOST_ROWS]],
        "more_queues": max(len(queues) - _MOST_ROWS, 0),
        "queued_by_task": [{"task": task, "jobs": jobs} for task, jobs in tasks[:_MOST_ROWS]],
        "more_tasks": max(len(tasks) - _MOST_ROWS, 0),
        "oldest_due": oldest_due(stats),
        "next_due": stats.next_due,
        "expired_leases": stats.expired_leases,
        "is_healthy": is_healthy(findings),
        "findings": [as_json(finding) for finding in findings],
        "workers": None if looked.workers is None else rows(looked.workers[:_MOST_WORKERS], stats.now),
        "more_workers": max(len(looked.workers or ()) - _MOST_WORKERS, 0),
        "hour": None if kept is None else figures.spans(kept, stats.now, figures.HOUR, figures.MINUTE),
        "day": None if kept is None else figures.spans(kept, stats.now, figures.DAY, figures.QUARTER),
    }


def oldest_due(stats: Stats) -> float | None:
    """Since when the oldest job waits that could run."""
    return min((queue.oldest_due for queue in stats.queues if queue.oldest_due is not None), default=None)
