"""The verbs of a store for whoever watches over it, and what a store answers without them.

Who works on it, what ended by the minute, whether it is configured to keep what was promised. `Backend` and
`BaseBackend` take them in; nothing here may know a store.
"""

from typing import Protocol

from tinyjobs.backends.schedules import unsupported
from tinyjobs.core.watching import Finding, Tally, WorkerSeen


class WatchingVerbs(Protocol):
    """`beat` to `workers` are for stores that declare `workers_seen`, `tallies` for `tallies`, `delete` for `delete`.
    The rest is answered by every store.
    """

    async def check_layout(self) -> None:
        """Raise `SchemaMissingError` where `setup` would have to make the store, which this does not.

        For whoever only looks, and before `setup`: a mistyped place is then found out, and left as it is.
        """
        ...

    async def audit(self) -> list[Finding]:
        """How the store is configured, held against what the guarantees need. Reads settings, never writes.

        A failing finding for each problem, with its remedy; behind them one that passes and says what the store runs
        with and what could not be looked at. An empty list from a store that knows nothing to look at.
        """
        ...

    async def beat(self, worker: WorkerSeen) -> None:
        """Note down that this worker is there, in place of what it said before. One short write of its own row."""
        ...

    async def sign_off(self, worker_id: str) -> None:
        """Forget a worker, which has stopped. Nothing happens if it is not known."""
        ...

    async def workers(self) -> list[WorkerSeen]:
        """The workers that have told of themselves and have not signed off, by when they started.

        Those not seen for `FORGOTTEN_AFTER` seconds are left out.
        """
        ...

    async def tallies(self, since: float) -> list[Tally]:
        """What ended from `since` on, the span that it lies in included; by time, then queue. At most a day is kept.

        Spans of the last hour are a minute long, older ones may be a quarter of an hour. Summed over all workers.
        """
        ...

    async def tidy(self) -> None:
        """Keep what is kept small: old tallies in fewer rows, silent workers forgotten. Now and then, by any worker."""
        ...

    async def delete(self, job_id: str) -> bool:
        """Delete an ended job with its executions; False if it has not ended, is not there, or a waiting job names it.

        Its key is free already, since it has ended.
        """
        ...

    async def neighbours(self, job_id: str) -> tuple[str | None, str | None]:
        """The ids of the next newer and the next older job in the order of a listing; None where there is none.

        The job itself need not be there any more.
        """
        ...


class KeepsNoWatch:
    """What a store answers that keeps none of that."""

    async def check_layout(self) -> None:
        """By default a store is taken to be there."""

    async def audit(self) -> list[Finding]:
        """Nothing to look at by default."""
        return []

    async def beat(self, worker: WorkerSeen) -> None:
        """Not kept by default."""

    async def sign_off(self, worker_id: str) -> None:
        """Not kept by default."""

    async def workers(self) -> list[WorkerSeen]:
        """Refused by a store that does not see workers."""
        raise unsupported(self, "a list of workers")

    async def tallies(self, since: float) -> list[Tally]:
        """Refused by a store that keeps none."""
        raise unsupported(self, "figures by the minute")

    async def tidy(self) -> None:
        """Nothing to keep small by default."""

    async def delete(self, job_id: str) -> bool:
        """Refused by a store that deletes nothing."""
        raise unsupported(self, "deleting jobs")

    async def neighbours(self, job_id: str) -> tuple[str | None, str | None]:
        """Unknown by default."""
        return None, None
