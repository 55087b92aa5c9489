"""The workers that a store sees, and how they are."""

from collections.abc import Sequence
from typing import Any

from tinyjobs.core.inline import finish
from tinyjobs.core.watching import SILENT_AFTER, WorkerSeen
from tinyjobs.dashboard.pages.asking import Query
from tinyjobs.dashboard.services import Desk

_PAGE = 100


def workers(desk: Desk, query: Query) -> dict[str, Any]:
    """The page. `workers` is None where the store does not see them."""
    now = finish(desk.store.present())
    if not desk.capabilities.workers_seen:
        return {"now": now, "workers": None, "count": 0, "page": 1, "pages": 1}
    everyone = finish(desk.store.workers())
    pages = max(-(-len(everyone) // _PAGE), 1)
    page = query.number("page", 1, pages)
    return {
        "now": now,
        "workers": rows(everyone[(page - 1) * _PAGE : page * _PAGE], now),
        "count": len(everyone),
        "page": page,
        "pages": pages,
    }


def rows(workers: Sequence[WorkerSeen], now: float) -> list[dict[str, Any]]:
    """Workers as a table shows them; `now` is by the store's clock."""
    return [_row(worker, now) for worker in workers]


def _row(worker: WorkerSeen, now: float) -> dict[str, Any]:
    return {
        "id": worker.worker_id,
        "host": worker.host,
        "pid": worker.pid,
        "version": worker.version,
        "started_at": worker.started_at,
        "seen_at": worker.seen_at,
        "queues": list(worker.queues),
        "threads": worker.threads,
        "coroutines": worker.coroutines,
        "running": worker.running,
        "is_stopping": worker.is_stopping,
        "is_silent": now - worker.seen_at > SILENT_AFTER,
        "scheduled_at": worker.scheduled_at,
    }
