"""One job: its fields, what it was called with and what came of it, every attempt, and the jobs before and after it."""

from collections.abc import Sequence
from typing import Any

from tinyjobs.core.ids import is_job_id
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Execution
from tinyjobs.dashboard.pages.asking import NotThere, Query
from tinyjobs.dashboard.pages.values import arguments, attempt, result, row
from tinyjobs.dashboard.services import Desk

# A job that was tried more often shows its latest attempts, and all of them when asked.
_ATTEMPTS = 50


def job(desk: Desk, query: Query, job_id: str) -> dict[str, Any]:
    """The page. Raises `NotThere`; what cannot be an id is not looked for."""
    found = finish(desk.store.get(job_id)) if is_job_id(job_id) else None
    if found is None:
        raise NotThere(job_id)
    executions = finish(desk.store.executions(job_id)) if found.claims else []
    newer, older = finish(desk.store.neighbours(job_id))
    whole, veil = query.flag("all"), desk.veil()
    # First the arguments: what is hidden in them is taken out of the texts as well.
    call = arguments(desk, found, veil, whole=whole)
    shown = executions if whole else executions[-_ATTEMPTS:]
    return {
        "now": desk.now(),
        **row(found),
        "hand_backs": found.hand_backs,
        "claims": found.claims,
        "lease_expires_at": found.lease_expires_at,
        "expires_at": found.expires_at,
        "key": None if found.key is None else veil.text(found.key),
        "codec": found.codec,
        "runs_after": found.runs_after,
        "arguments": call,
        "result": result(desk, found, veil, whole=whole),
        "last_error": None if found.last_error is None else veil.text(found.last_error),
        "executions": [attempt(execution, veil) for execution in shown],
        "earlier_executions": len(executions) - len(shown),
        "timeline": _timeline(shown, desk.now()),
        "newer": newer,
        "older": older,
        "is_whole": whole,
        "delete": desk.capabilities.delete,
    }


def _timeline(executions: Sequence[Execution], now: float) -> list[dict[str, Any]]:
    """Where each attempt stands between the first start and the last end, in parts of a hundred."""
    if not executions:
        return []
    first = executions[0].started_at
    ends = [execution.finished_at or max(now, execution.started_at) for execution in executions]
    length = max(max(ends) - first, 1e-6)
    return [
        {
            "attempt": execution.attempt,
            "status": execution.status.value,
            "left": round(max(execution.started_at - first, 0.0) / length * 100, 2),
            "width": round(max((end - execution.started_at) / length * 100, 0.8), 2),
            "seconds": max(end - execution.started_at, 0.0),
        }
        for execution, end in zip(executions, ends, strict=True)
    ]
