"""The verbs of a store that end and delete what nobody waits for any more, and what a store answers without them.

`Backend` and `BaseBackend` take them in; nothing here may know a store.
"""

from typing import Protocol

from tinyjobs.backends.schedules import unsupported
from tinyjobs.core.job import Job
from tinyjobs.core.status import JobStatus


class HousekeepingVerbs(Protocol):
    """Beside the first, `claim_sweep` to `purgeable` are for stores that declare `retention`, the last for
    `result_ttl`. Ages are in seconds, counted by the clock that decides in the store.
    """

    async def end_unstarted(self, limit: int = 500) -> list[Job]:
        """End jobs as cancelled that have not started by their expiry; each as it stands afterwards.

        Whether they are due, delayed or waiting, and whoever serves their queue. A job that has started once, and was
        not handed back, does not expire any more.
        """
        ...

    async def claim_sweep(self, interval: float) -> bool:
        """Whether the caller is to sweep now. Of all who ask within `interval` seconds, one is told so."""
        ...

    async def purge(self, status: JobStatus, older_than: float, limit: int = 500) -> int:
        """Delete the oldest jobs of a final status that ended `older_than` seconds ago or earlier; how many.

        With their executions, `limit` at most, in one short write. Jobs that a waiting job names stay.
        """
        ...

    async def purgeable(self, status: JobStatus, older_than: float) -> int:
        """How many jobs such purges would delete in all. Changes nothing."""
        ...

    async def drop_results(
        self, task: str, older_than: float, *, since: float = 0.0, limit: int = 500
    ) -> tuple[int, float]:
        """Drop the stored results of a task's jobs that ended `older_than` seconds ago or earlier, `limit` at most.

        How many, and the end up to which there are none left, to be given as `since` the next time. Rows and history
        stay.
        """
        ...


class KeepsEverything:
    """What a store answers that neither looks for expired jobs nor deletes anything."""

    async def end_unstarted(self, limit: int = 500) -> list[Job]:
        """None, for a store that looks for none: then a claim decides alone."""
        return []

    async def claim_sweep(self, interval: float) -> bool:
        """Never, for a store that deletes nothing."""
        return False

    async def purge(self, status: JobStatus, older_than: float, limit: int = 500) -> int:
        """Refused by a store that deletes nothing."""
        raise unsupported(self, "retention")

    async def purgeable(self, status: JobStatus, older_than: float) -> int:
        """Refused by a store that deletes nothing."""
        raise unsupported(self, "retention")

    async def drop_results(
        self, task: str, older_than: float, *, since: float = 0.0, limit: int = 500
    ) -> tuple[int, float]:
        """Refused by a store that drops no results."""
        raise unsupported(self, "result_ttl")
