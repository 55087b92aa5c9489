"""Sends that wait for the caller's commit, for a store that cannot be part of the caller's transaction.

The job has its id at once. It goes to the store when the transaction commits, and never when it does not. Which
transaction: that of the database `default` if one is open there, else the first one open in this thread. What one
commit sends to one store goes in one call, made where the first of it was registered.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job
from tinyjobs.core.logs import facts_of
from tinyjobs.taskbackend.results import JobResult
from tinyjobs.taskbackend.shared import Shared

logger = logging.getLogger("tinyjobs.tasks")

type Sent = Callable[[Sequence[Job]], None]
# As Django keeps them for a connection: the savepoints that a callback needs, the callback, whether it may fail.
type _Callbacks = list[Any]


class PendingSend:
    """Jobs on their way to the store; called at the commit, or earlier by a test's drain. Sends once."""

    def __init__(self, shared: Shared, jobs: Sequence[Job], results: Mapping[str, JobResult], sent: Sent) -> None:
        self.shared = shared
        self.jobs = jobs
        self.sent = sent
        self.is_done = False
        self._by_key = {job.key: results[job.id] for job in jobs if job.key is not None}
        self._connection: BaseDatabaseWrapper | None = None
        self._callbacks: _Callbacks = []

    def register(self, connection: BaseDatabaseWrapper) -> None:
        """Be called when the open transaction commits."""
        transaction.on_commit(self, using=connection.alias)
        self._connection, callbacks = connection, connection.run_on_commit
        for _, callback, *_ in reversed(callbacks):
            if isinstance(callback, PendingSend):
                if callback._callbacks is callbacks:
                    break
                callback._callbacks = callbacks

    def holding(self, shared: Shared, key: str) -> JobResult | None:
        """The result of a job on its way to that store with this key."""
        return None if self.is_done or shared is not self.shared else self._by_key.get(key)

    def __call__(self) -> None:
        """Send what was not sent yet, and with it what the same commit is about to send to the same store."""
        _send([pending for pending in self._certain() if pending.shared is self.shared])

    def _certain(self) -> Iterator["PendingSend"]:
        """Those that are sure to be due by now, this one first.

        Django works through the list of callbacks by taking them out. If it is the one that was seen last, whatever is
        left in it follows. A savepoint that was rolled back since then made it another list; of those seen before, the
        ones that need no savepoint but mine are in that as well.
        """
        yield self
        own = next((needed for needed, callback, *_ in self._callbacks if callback is self), None)
        if own is None:
            yield from _sends(self._callbacks)
        elif self._connection is not None and not self._connection.in_atomic_block:
            yield from _sends([entry for entry in self._callbacks if entry[0] <= own and entry[1] is not self])


def waits_for_commit(shared: Shared) -> BaseDatabaseWrapper | None:
    """The connection whose open transaction a send has to wait for, or None when it can go at once."""
    settings = shared.settings
    if settings.database is not None or settings.eager or not settings.enqueue_on_commit:
        return None
    for connection in _in_use():
        if connection.in_atomic_block:
            return connection
        if connection.connection is not None and not connection.autocommit:
            raise TransactionManagementError(
                f"DATABASES[{connection.alias!r}] has autocommit off outside of atomic(), so there is no telling when "
                f"its transaction commits. Send inside atomic(), or set "
                f"{settings.path('enqueue_on_commit')} = False to send at once."
            )
    return None


def pending_holder(connection: BaseDatabaseWrapper, shared: Shared, key: str) -> JobResult | None:
    """The result of the job with this key that waits for the same commit."""
    found = (pending.holding(shared, key) for pending in _sends(connection.run_on_commit))
    return next((result for result in found if result is not None), None)


def send_pending() -> None:
    """Send now what waits for a commit in this thread; for a drain inside a test, whose transaction never commits."""
    waiting = [pending for connection in _in_use() for pending in _sends(connection.run_on_commit)]
    for shared in {id(pending.shared): pending.shared for pending in waiting}.values():
        _send([pending for pending in waiting if pending.shared is shared])


def _send(pendings: Collection[PendingSend]) -> None:
    """In one call. A failure reaches whoever committed, and the log names what was lost."""
    waiting = [pending for pending in pendings if not pending.is_done]
    jobs = [job for pending in waiting for job in pending.jobs]
    if not jobs:
        return
    for pending in waiting:
        pending.is_done = True
    shared = waiting[0].shared
    try:
        kept = finish(shared.store.enqueue_many(jobs))
    except Exception as error:
        error.add_note(
            "The transaction is committed all the same. Its jobs will not be sent again; the log names them."
        )
        logger.error(
            "%d jobs of a committed transaction could not be sent to %s and may be lost: %s%s",
            len(jobs),
            shared.settings.where,
            ", ".join(job.id for job in jobs[:10]),
            ", …" if len(jobs) > 10 else "",
            extra={"job_ids": [job.id for job in jobs]},
        )
        raise
    for job, answer in zip(jobs, kept, strict=True):
        if answer.existing:
            text = "job %s was not kept: by the time its transaction committed, job %s held its key"
            logger.warning(text, job.id, answer.id, extra=facts_of(job))
    new = {job.id: job for job in kept if not job.existing}
    for pending in waiting:
        pending.sent([new[job.id] for job in pending.jobs if job.id in new])


def _sends(callbacks: _Callbacks) -> Iterator[PendingSend]:
    return (callback for _, callback, *_ in list(callbacks) if isinstance(callback, PendingSend))


def _in_use() -> Iterator[BaseDatabaseWrapper]:
    return iter(sorted(connections.all(initialized_only=True), key=lambda found: found.alias != DEFAULT_DB_ALIAS))
