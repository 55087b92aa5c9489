"""What every worker does beside running jobs: it takes back the jobs of workers that vanished.

Built in and stateless: recovery depends on the job's row alone, so nothing can lock it out. The worker whose pass
fails a job for good tells the hooks, once, since nobody else is left to.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from tinyjobs.core.errors import WorkerLost
from tinyjobs.core.job import Held, Job
from tinyjobs.core.status import JobStatus
from tinyjobs.core.trouble import Backoff, log_failure
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import HookRunner
from tinyjobs.runtime.ownloop import out_of_sight
from tinyjobs.runtime.settings import WorkerSettings

logger = logging.getLogger("tinyjobs.upkeep")

_BATCH = 500


class Upkeep:
    """The reaper's loop."""

    def __init__(
        self, engine: Engine, settings: WorkerSettings, hooks: HookRunner, held: Callable[[], Sequence[Held]]
    ) -> None:
        self._engine = engine
        self._interval = interval = settings.reap_interval
        self._lease = settings.lease
        self._hooks = hooks
        self._held = held
        self._looked_at = engine.clock.now()
        self._trouble = Backoff(first=0.25, ceiling=max(interval, 1.0))

    async def run(self) -> None:
        """Pass after pass until cancelled. A failing pass is reported once, and tried again."""
        while True:
            try:
                await self.reap()
            except Exception as error:
                self._engine.hooks.report("upkeep", error)
                if self._trouble.failures == 0:
                    log_failure(logger, error, "expired leases could not be looked for, trying again: %s")
                await self._engine.clock.sleep(self._trouble.failed())
                continue
            if self._trouble.succeeded():
                logger.info("expired leases are looked for again")
            # Spread out, so that workers started together do not all look at the same moment.
            await self._engine.clock.sleep(self._interval * (0.75 + self._engine.random.random() / 2))

    async def reap(self) -> int:
        """Take back every job whose lease ran out; how many there were."""
        await self._renew_own_after_a_gap()
        total = 0
        while True:
            jobs = await self._take_back()
            total += len(jobs)
            if len(jobs) < _BATCH:
                return total

    async def _renew_own_after_a_gap(self) -> None:
        """After a pause nobody planned, as of a suspended machine, the leases of this worker's own jobs come first.

        They may have run out meanwhile, and it would take jobs back that it is still running.
        """
        before, self._looked_at = self._looked_at, self._engine.clock.now()
        if self._looked_at - before > self._interval * 1.25 + self._lease / 3 and (held := self._held()):
            await self._engine.store.heartbeat(held, self._lease)

    async def _take_back(self) -> list[Job]:
        taking = asyncio.ensure_future(self._engine.store.reap_expired(_BATCH))
        if isinstance(taking, asyncio.Task):
            out_of_sight(taking)
        try:
            jobs = await asyncio.shield(taking)
        except asyncio.CancelledError:
            # It goes on in the store, and of what it takes back nobody else will tell.
            # Should it fail, that must not stand in the place of the cancellation: the worker waits for this to end.
            if not taking.cancelled():
                with suppress(Exception):
                    self._tell_all(await taking)
            raise
        self._tell_all(jobs)
        return jobs

    def _tell_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._tell(job)

    def _tell(self, job: Job) -> None:
        failed = job.status is JobStatus.FAILED
        logger.warning(
            "job %s (%s) was taken back: its worker vanished at attempt %d of %d; it %s",
            job.id,
            job.task,
            job.attempts,
            job.max_attempts,
            "has failed for good" if failed else "is queued again",
            extra={"job_id": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempts},
        )
        self._hooks.add(self._engine.hooks.on_failure, job, WorkerLost(job.last_error or ""), not failed)
