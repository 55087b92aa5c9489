"""What every worker does beside running jobs: it takes back the jobs of workers that vanished, and ends those whose
expiry has passed in a queue that nobody serves.

Built in and stateless: recovery depends on the job's row alone, so nothing can lock it out. The worker whose pass
ends a job for good tells the hooks, once, since nobody else is left to.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from tinyjobs.core.errors import JobExpired, WorkerLost
from tinyjobs.core.job import Held, Job
from tinyjobs.core.logs import facts_of
from tinyjobs.core.sight import out_of_sight
from tinyjobs.core.status import JobStatus
from tinyjobs.core.trouble import Backoff, log_failure
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import HookRunner
from tinyjobs.runtime.recorder import log_expired
from tinyjobs.runtime.settings import WorkerSettings

logger = logging.getLogger("tinyjobs.upkeep")

_BATCH = 500
_LOST = f"{WorkerLost.__module__}.{WorkerLost.__qualname__}"


async def pass_after_pass(
    engine: Engine, do: Callable[[], Coroutine[Any, Any, None]], interval: float, *, failing: str, again: str
) -> None:
    """Do it every `interval` seconds until cancelled. A failing pass is reported once, and tried again sooner.

    `failing` and `again` are how the log tells of trouble and of its end.
    """
    trouble = Backoff()
    while True:
        try:
            await do()
        except Exception as error:
            engine.hooks.report("upkeep", error)
            if not engine.outage.met(failing, error) and trouble.failures == 0:
                log_failure(logger, error, "%s: %s", failing)
            await engine.clock.sleep(trouble.failed())
            continue
        failures = trouble.succeeded()
        if not engine.outage.over(failing) and failures:
            logger.info(again)
        # Spread out, so that workers started together do not all look at the same moment.
        await engine.clock.sleep(interval * (0.75 + engine.random.random() / 2))


class Upkeep:
    """The reaper's loop. `expired` counts the jobs that it ended since they had not started in time."""

    def __init__(
        self, engine: Engine, settings: WorkerSettings, hooks: HookRunner, held: Callable[[], Sequence[Held]]
    ) -> None:
        self._engine = engine
        self._interval = settings.reap_interval
        self._lease = settings.lease
        self._hooks = hooks
        self._held = held
        self._looked_at = engine.clock.now()
        self.expired = 0
        #: Whether jobs are being ended or taken back that no hook has been told of yet.
        self.is_taking = False

    async def run(self) -> None:
        """Pass after pass until cancelled."""
        await pass_after_pass(
            self._engine,
            self._pass,
            self._interval,
            failing="expired leases could not be looked for, trying again",
            again="expired leases are looked for again",
        )

    async def _pass(self) -> None:
        await self.reap()
        await self.end_unstarted()

    async def reap(self) -> int:
        """Take back every job whose lease ran out, but for those this worker runs; how many there were."""
        await self._renew_own_after_a_gap()
        total = 0
        while True:
            jobs = await self._to_its_end(self._engine.store.reap_expired(_BATCH, self._held), self._tell_lost)
            total += len(jobs)
            if len(jobs) < _BATCH:
                return total

    async def end_unstarted(self) -> int:
        """End every job that has not started by its expiry; how many there were."""
        total = 0
        while True:
            jobs = await self._to_its_end(self._engine.store.end_unstarted(_BATCH), self._tell_expired)
            total += len(jobs)
            if len(jobs) < _BATCH:
                return total

    async def _renew_own_after_a_gap(self) -> None:
        """After a pause nobody planned, as of a suspended machine, the leases of this worker's own jobs come first.

        They may have run out meanwhile, and other workers, suspended with it, would take those jobs back.
        """
        before, self._looked_at = self._looked_at, self._engine.clock.now()
        if self._looked_at - before > self._interval * 1.25 + self._lease / 3 and (held := self._held()):
            await self._engine.store.heartbeat(held, self._lease)

    async def _to_its_end(self, verb: Coroutine[Any, Any, list[Job]], tell: Callable[[Job], None]) -> list[Job]:
        taking = asyncio.ensure_future(verb)
        if isinstance(taking, asyncio.Task):
            out_of_sight(taking)
        self.is_taking = True
        try:
            return await self._told(taking, tell)
        finally:
            self.is_taking = False

    async def _told(self, taking: "asyncio.Future[list[Job]]", tell: Callable[[Job], None]) -> list[Job]:
        try:
            jobs = await asyncio.shield(taking)
        except asyncio.CancelledError:
            # It goes on in the store, and of the jobs it changes nobody else will tell.
            # Should it fail, that must not stand in the place of the cancellation: the worker waits for this to end.
            if not taking.cancelled():
                with suppress(Exception):
                    for job in await taking:
                        tell(job)
            raise
        for job in jobs:
            tell(job)
        return jobs

    def _tell_expired(self, job: Job) -> None:
        self.expired += 1
        log_expired(job)
        error = JobExpired(job.last_error or "")
        self._engine.hooks.failed(job, error, False)
        self._hooks.add(self._engine.hooks.on_failure, job, error, False)

    def _tell_lost(self, job: Job) -> None:
        if job.status is JobStatus.CANCELLED:
            self._tell_expired(job)  # its worker had come too late to run it
            return
        failed = job.status is JobStatus.FAILED
        error = WorkerLost(job.last_error or "")
        logger.warning(
            "job %s (%s) was taken back: its worker vanished at attempt %d of %d; it %s",
            job.id,
            job.task,
            job.attempts,
            job.max_attempts,
            "has failed for good" if failed else "is queued again",
            extra=facts_of(job, error=_LOST, error_message=job.last_error, will_retry=not failed),
        )
        self._engine.hooks.failed(job, error, not failed)
        self._hooks.add(self._engine.hooks.on_failure, job, error, not failed)
