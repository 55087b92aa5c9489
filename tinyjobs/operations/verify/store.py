"""The store under test as a run needs it: looked at before, watched while jobs are left, and cleared afterwards."""

import os
from urllib.parse import unquote

from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.errors import ConfigurationError, StoreError
from tinyjobs.core.inline import finish
from tinyjobs.core.status import ACTIVE, JobStatus
from tinyjobs.core.watching import SILENT_AFTER
from tinyjobs.operations.presence import Presence


def check_platform() -> None:
    """Raise where workers cannot be stopped by the signals that this is about."""
    if os.name != "posix":
        raise ConfigurationError("verify stops workers by SIGTERM, SIGKILL and SIGSTOP, which only a POSIX system has.")


def check_url(url: str) -> None:
    """Raise for a store in memory, which no other process can share."""
    scheme, _, rest = url.partition("://")
    named = unquote(rest)
    if scheme.lower() == "memory" or (
        scheme.lower() == "sqlite" and any(word in named for word in (":memory:", "mode=memory", "vfs=memdb"))
    ):
        raise ConfigurationError(
            "A store in memory is this process's alone, and the workers could not share it. Name a file, or a server."
        )


def open_empty(app: TinyJobs) -> None:
    """Connect, before anything is sent.

    Raises `ConfigurationError` if that fails, if the store holds jobs, or if a worker there would take the run's.
    """
    try:
        app.setup()
        stats = app.stats()
        workers = app.workers() if app.store.capabilities.workers_seen else []
    except StoreError as error:
        raise ConfigurationError(f"{app.where} cannot be used: {error}") from error
    held = sum(stats.by_status.values())
    if held:
        raise ConfigurationError(
            f"{app.where} holds {held:,} {'job' if held == 1 else 'jobs'}. verify runs only where there are none: "
            f"give it a new file, a spare Redis database or a scratch Postgres database."
        )
    for worker in Presence(stats, workers).serving:
        if not worker.queues:
            raise ConfigurationError(
                f"{app.where}: worker {worker.worker_id} serves every queue of it, and would take jobs of the run. "
                f"Stop it, or start it with --queues. One that was killed is listed as there for {SILENT_AFTER:g} s."
            )


def _count_jobs(app: TinyJobs) -> int:
    """How many jobs there are, of whatever queue, one by one: the figures of a store under test may be wrong."""
    count, page = 0, app.list(limit=1_000)
    while page.cursor is not None:
        count, page = count + len(page.jobs), app.list(limit=1_000, cursor=page.cursor)
    return count + len(page.jobs)


def is_settled(app: TinyJobs, queue: str) -> bool:
    """Whether every job of the queue has ended. By figures of one instant: one look after the other would miss a job
    that begins in between."""
    return not any(
        found.name == queue and found.ready + found.delayed + found.running + found.held + found.waiting
        for found in app.stats().queues
    )


def holders(app: TinyJobs, queue: str) -> frozenset[str]:
    """The worker ids that hold running jobs of the queue."""
    running = app.list(status=JobStatus.RUNNING, queue=queue, limit=1_000).jobs
    return frozenset(job.worker_id for job in running if job.worker_id)


def cancel_rest(app: TinyJobs, queue: str) -> int:
    """Cancel what has not ended, which nothing would ever take: the queue is the run's own, and its workers ended."""
    cancelled = 0
    for status in sorted(ACTIVE):
        while jobs := app.list(status=status, queue=queue, limit=500).jobs:
            ended = sum(app.cancel(job) for job in jobs)
            cancelled += ended
            if not ended:
                break
    return cancelled


def clear(app: TinyJobs, queue: str, own: int, *, keep: bool) -> tuple[bool, str]:
    """Purge the run's jobs, `own` of them; whether the store is as it should be, and a line about it.

    Where there are other jobs by now nothing is purged, since that goes by age and not by queue.
    """
    forget_workers(app, queue)
    others = _count_jobs(app) - own
    if others > 0:
        return True, (
            f"{others:,} other {'job has' if others == 1 else 'jobs have'} appeared in the store meanwhile, so nothing "
            f"was purged: the run's own {own:,} stay in queue {queue}"
        )
    if keep:
        return True, f"the run's {own:,} jobs are kept in queue {queue}"
    app.purge(older_than=0)
    left, counted = _count_jobs(app), sum(app.stats().by_status.values())
    if left:
        return False, f"{left:,} {'job was' if left == 1 else 'jobs were'} left in the store"
    if counted:
        return False, f"no job is left in the store, and yet its figures count {counted:,}"
    return True, "the store is left as it was found"


def forget_workers(app: TinyJobs, queue: str) -> None:
    """Have the store forget the workers of the run that were killed and so could not sign off."""
    store = app.engine.store.inline()
    if store.capabilities.workers_seen:
        for worker in finish(store.workers()):
            if tuple(worker.queues) == (queue,):
                finish(store.sign_off(worker.worker_id))
