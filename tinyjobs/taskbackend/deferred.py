"""Sends that wait for the caller's commit, for a store that cannot be part of the caller's transaction.

The job has its id at once. It goes to the store when the transaction commits, and never when it does not. Which
transaction: that of the database `default` if one is open there, else the first one open in this thread.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job
from tinyjobs.taskbackend.results import JobResult
from tinyjobs.taskbackend.shared import Shared

logger = logging.getLogger("tinyjobs.tasks")

type Sent = Callable[[Sequence[Job]], None]


class PendingSend:
    """Jobs on their way to the store; called at the commit, or earlier by a test's drain. Sends once."""

    def __init__(self, shared: Shared, jobs: Sequence[Job], results: Mapping[str, JobResult], sent: Sent) -> None:
        self._shared = shared
        self._jobs = jobs
        self._by_key = {job.key: results[job.id] for job in jobs if job.key is not None}
        self._sent = sent
        self._is_done = False

    def holding(self, shared: Shared, key: str) -> JobResult | None:
        """The result of a job on its way to that store with this key."""
        return None if self._is_done or shared is not self._shared else self._by_key.get(key)

    def __call__(self) -> None:
        """Send what was not sent yet. A failure reaches whoever committed, and the log names what was lost."""
        if self._is_done:
            return
        self._is_done = True
        try:
            kept = finish(self._shared.store.enqueue_many(self._jobs))
        except Exception:
            ids = ", ".join(job.id for job in self._jobs[:10])
            logger.error(
                "%d jobs of a committed transaction could not be sent to %s and are lost: %s%s",
                len(self._jobs),
                self._shared.settings.where,
                ids,
                ", …" if len(self._jobs) > 10 else "",
            )
            raise
        for job, answer in zip(self._jobs, kept, strict=True):
            if answer.existing:
                logger.warning(
                    "job %s was not kept: by the time its transaction committed, job %s held its key", job.id, answer.id
                )
        self._sent([job for job in kept if not job.existing])


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


def send_at_commit(connection: BaseDatabaseWrapper, pending: PendingSend) -> None:
    """Have the jobs sent when the transaction commits."""
    transaction.on_commit(pending, using=connection.alias)


def pending_holder(connection: BaseDatabaseWrapper, shared: Shared, key: str) -> JobResult | None:
    """The result of the job with this key that waits for the same commit."""
    found = (pending.holding(shared, key) for pending in _pending(connection))
    return next((result for result in found if result is not None), None)


def send_pending() -> None:
    """Send now what waits for a commit in this thread; for a drain inside a test, whose transaction never commits."""
    for connection in _in_use():
        for pending in _pending(connection):
            pending()


def _pending(connection: BaseDatabaseWrapper) -> list[PendingSend]:
    return [callback for _, callback, *_ in connection.run_on_commit if isinstance(callback, PendingSend)]


def _in_use() -> Iterator[BaseDatabaseWrapper]:
    return iter(sorted(connections.all(initialized_only=True), key=lambda found: found.alias != DEFAULT_DB_ALIAS))
