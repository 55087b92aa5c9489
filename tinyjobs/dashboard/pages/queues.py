"""The queues: what stands in each, how much ends a minute, and for how long its jobs wait."""

from typing import Any

from tinyjobs.cli.figures import queue_row
from tinyjobs.core.inline import finish
from tinyjobs.core.job import QueueStats
from tinyjobs.dashboard.pages import figures
from tinyjobs.dashboard.pages.asking import Query
from tinyjobs.dashboard.services import Desk

_PAGE = 100


def queues(desk: Desk, query: Query) -> dict[str, Any]:
    """The page: the queues of the store and those that only tasks and settings name, by name."""
    stats = finish(desk.store.stats())
    kept = figures.tallies(desk, stats.now, figures.HOUR)
    ended = {} if kept is None else figures.by_queue(kept, stats.now, figures.HOUR)
    found = {name: QueueStats(name=name) for name in (*desk.queue_names(), *ended)}
    found |= {queue.name: queue for queue in stats.queues}
    names = sorted(found)
    pages = max(-(-len(names) // _PAGE), 1)
    page = query.number("page", 1, pages)
    shown = names[(page - 1) * _PAGE : page * _PAGE]
    return {
        "now": stats.now,
        "has_figures": kept is not None,
        "queues": [{**queue_row(found[name], stats.now), "ended": _ended(ended.get(name))} for name in shown],
        "count": len(names),
        "page": page,
        "pages": pages,
    }


def _ended(span: dict[str, Any] | None) -> dict[str, Any]:
    """The last hour of a queue: the attempts that ended a minute, and the mean of their waits and runs."""
    if span is None:
        return {"a_minute": 0.0, "unsuccessful": 0, "mean_wait": None, "longest_wait": None, "mean_run": None}
    return {
        "a_minute": (span["succeeded"] + span["unsuccessful"]) / (figures.HOUR / figures.MINUTE),
        **{name: span[name] for name in ("unsuccessful", "mean_wait", "longest_wait", "mean_run")},
    }
