"""Verbs for whoever watches: the workers that tell of themselves, and what ended by the minute."""

from typing import Any

from tinyjobs.backends.redis.calls import Caller
from tinyjobs.backends.redis.rows import as_json, as_told
from tinyjobs.core.watching import FORGOTTEN_AFTER, Tally, WorkerSeen


async def beat(call: Caller, worker: WorkerSeen) -> None:
    """Note the worker down. Others that have been silent for long enough are forgotten, ten at most."""
    told = as_json(
        {
            "host": worker.host,
            "pid": worker.pid,
            "version": worker.version,
            "started_at": worker.started_at,
            "queues": worker.queues,
            "threads": worker.threads,
            "coroutines": worker.coroutines,
            "running": worker.running,
            "is_stopping": worker.is_stopping,
            "scheduled_at": worker.scheduled_at,
        }
    )
    await call("beat", [told], worker=worker.worker_id, forgotten_after=repr(FORGOTTEN_AFTER))


async def sign_off(call: Caller, worker_id: str) -> None:
    """Forget the worker."""
    await call("sign_off", worker=worker_id)


async def workers(call: Caller) -> list[WorkerSeen]:
    """Those that were seen lately, by when they started."""
    answer = await call("workers", forgotten_after=repr(FORGOTTEN_AFTER))
    found = [
        _worker(worker_id.decode("utf-8", "replace"), float(seen_at), as_told(told))
        for worker_id, seen_at, told in zip(answer[::3], answer[1::3], answer[2::3], strict=True)
    ]
    found.sort(key=lambda worker: (worker.started_at, worker.worker_id))
    return found


async def tallies(call: Caller, since: float) -> list[Tally]:
    """By time, then queue. A script for each four hours, or less where there are many queues."""
    found: list[Tally] = []
    place: bytes | None = repr(since).encode()
    border = None
    while place:
        border, place, rows = await call("tallies", since=place.decode(), border=border and border.decode())
        found += [_tally(*row) for row in as_told(rows)]
    found.sort(key=lambda tally: (tally.start, tally.queue))
    return found


def _worker(worker_id: str, seen_at: float, told: dict[str, Any]) -> WorkerSeen:
    return WorkerSeen(worker_id=worker_id, seen_at=seen_at, **{**told, "queues": tuple(told["queues"])})


def _tally(start: str, seconds: float, queue: str, numbers: str) -> Tally:
    succeeded, unsuccessful, cancelled, waited, ran, longest_wait, longest_run = map(float, numbers.split())
    return Tally(
        start=float(start),
        seconds=float(seconds),
        queue=queue,
        succeeded=int(succeeded),
        unsuccessful=int(unsuccessful),
        cancelled=int(cancelled),
        waited=waited,
        ran=ran,
        longest_wait=longest_wait,
        longest_run=longest_run,
    )
