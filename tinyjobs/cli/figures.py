"""`queues` and `stats`: the store in figures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tinyjobs.cli.console import Console, shown_seconds
from tinyjobs.cli.target import Target
from tinyjobs.core.inline import finish
from tinyjobs.core.job import QueueStats, Stats
from tinyjobs.core.watching import SILENT_AFTER, WorkerSeen

type Options = Mapping[str, Any]


def show_queues(target: Target, options: Options, console: Console) -> None:
    """Print each queue with what stands in it; those that only the tasks name have nothing in them."""
    stats = finish(target.store.stats())
    queues = {name: QueueStats(name=name) for name in target.declared_queues()}
    queues |= {queue.name: queue for queue in stats.queues}
    ordered = [queues[name] for name in sorted(queues)]
    if options["as_json"]:
        console.json([_queue(queue, stats.now) for queue in ordered])
    elif ordered:
        _queue_table(ordered, stats.now, console)
    else:
        console.say("No queues: no job stands in one and no task names one.")


def show_stats(target: Target, options: Options, console: Console) -> None:
    """Print the figures of the store."""
    stats = finish(target.store.stats())
    keeps_workers = target.store.capabilities.workers_seen
    workers = finish(target.store.workers()) if keeps_workers else []
    if options["as_json"]:
        console.json(
            {
                "now": stats.now,
                "by_status": dict(stats.by_status),
                "queues": [_queue(queue, stats.now) for queue in stats.queues],
                "queued_by_task": dict(stats.queued_by_task),
                "expired_leases": stats.expired_leases,
                "next_due": stats.next_due,
                "workers": [asdict(worker) for worker in workers] if keeps_workers else None,
            }
        )
        return
    console.table(("STATUS", "JOBS"), list(stats.by_status.items()))
    if stats.queues:
        console.line()
        _queue_table(stats.queues, stats.now, console)
    if stats.queued_by_task:
        console.line()
        console.table(("TASK", "NOT YET RUNNING"), sorted(stats.queued_by_task.items()))
    if workers:
        console.line()
        _worker_table(workers, stats.now, console)
    console.line()
    _print_state(stats, console)
    if keeps_workers and not workers:
        console.line("workers: none is there")


def _print_state(stats: Stats, console: Console) -> None:
    console.line(f"expired leases: {stats.expired_leases}{_meaning(stats.expired_leases)}")
    due = "none waits" if stats.next_due is None else f"in {shown_seconds(stats.next_due - stats.now)}"
    console.line(f"next delayed job: {due}")


def _meaning(expired: int) -> str:
    return " (their workers died or hang; a running worker takes the jobs back)" if expired else ""


def queue_row(queue: QueueStats, now: float) -> dict[str, Any]:
    """A queue with what stands in it, for programs. `oldest_due` is in unix seconds, the wait since then in seconds."""
    oldest = queue.oldest_due
    return {
        "name": queue.name,
        "depth": queue.ready,
        "running": queue.running,
        "held": queue.held,
        "delayed": queue.delayed,
        "waiting": queue.waiting,
        "oldest_due": oldest,
        "oldest_due_seconds": None if oldest is None else max(now - oldest, 0.0),
    }


def _queue(queue: QueueStats, now: float) -> dict[str, Any]:
    row = queue_row(queue, now)
    waited = row["oldest_due_seconds"]
    return {**row, "oldest_due_seconds": None if waited is None else round(waited, 3)}


def _queue_table(queues: Sequence[QueueStats], now: float, console: Console) -> None:
    head = ("QUEUE", "DEPTH", "RUNNING", "HELD", "DELAYED", "WAITING", "OLDEST DUE")
    rows = [
        (
            queue.name,
            queue.ready,
            queue.running,
            queue.held,
            queue.delayed,
            queue.waiting,
            None if queue.oldest_due is None else f"{shown_seconds(now - queue.oldest_due)} ago",
        )
        for queue in queues
    ]
    console.table(head, rows)


def _worker_table(workers: Sequence[WorkerSeen], now: float, console: Console) -> None:
    head = ("WORKER", "QUEUES", "RUNNING", "STARTED", "SEEN", "STATE")
    rows = [
        (
            worker.worker_id,
            ",".join(worker.queues) or ("every" if worker.threads + worker.coroutines else "none, fires schedules"),
            worker.running,
            f"{shown_seconds(now - worker.started_at)} ago",
            f"{shown_seconds(now - worker.seen_at)} ago",
            _state(worker, now),
        )
        for worker in workers
    ]
    console.table(head, rows)


def _state(worker: WorkerSeen, now: float) -> str:
    if now - worker.seen_at > SILENT_AFTER:
        return "silent"
    return "stopping" if worker.is_stopping else "there"
