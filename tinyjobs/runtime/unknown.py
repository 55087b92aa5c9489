"""Says which tasks a worker does not know, without a line for every job: during a deploy there may be thousands."""

import logging
from collections.abc import Callable

from tinyjobs.core.job import Job
from tinyjobs.core.logs import facts_of

logger = logging.getLogger("tinyjobs.worker")

# How long one task's name is not named again, and how many are named one by one.
_QUIET = 60.0
_NAMED = 10


class UnknownTasks:
    """Notes jobs of unknown tasks during a pass; at its end each name is told at most once a minute, with a count."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._noted: dict[str, tuple[int, Job, float]] = {}
        self._told: dict[str, float] = {}

    def note(self, job: Job, delay: float) -> None:
        """A job was handed back for `delay` seconds since no task of that name is known."""
        count = self._noted[job.task][0] if job.task in self._noted else 0
        self._noted[job.task] = count + 1, job, delay

    def tell(self) -> None:
        """The pass is over: say what was noted and not said lately. What is not said now is counted on."""
        if not self._noted:
            return
        now = self._monotonic()
        self._told = {name: at for name, at in self._told.items() if now - at < _QUIET}
        due = [name for name in self._noted if name not in self._told]
        for name in due[:_NAMED]:
            self._tell_one(*self._noted[name])
        rest = due[_NAMED:]
        if rest:
            jobs = sum(self._noted[name][0] for name in rest)
            logger.error("%d jobs of %d further tasks are not known to this worker either", jobs, len(rest))
        for name in due:
            self._told[name] = now
            del self._noted[name]

    def _tell_one(self, count: int, job: Job, delay: float) -> None:
        logger.error(
            "this worker does not know the task %r: %d of its jobs were handed back, the last of them %s, and are "
            "looked at again in %g s at the latest. Import the task's module in this worker, or start a worker that "
            "has it.",
            job.task,
            count,
            job.id,
            delay,
            extra=facts_of(job),
        )
