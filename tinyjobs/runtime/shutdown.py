"""A worker's last moments: wait for what runs, give back what can be given back, record everything.

Within the shutdown timeout coroutines may finish; then they are cut, and go back to the queue without using an
attempt. A function in a thread cannot be stopped, and giving its job back would let it run twice, so it is waited
for, its lease renewed, and the log says so. A second signal skips the waiting for coroutines.
"""

import logging

from tinyjobs.core.logs import facts_of
from tinyjobs.executors.coroutine import CoroutineExecutor
from tinyjobs.executors.thread import ThreadExecutor
from tinyjobs.runtime.attempt import hand_back
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.idle import Idler
from tinyjobs.runtime.recorder import Recorder
from tinyjobs.runtime.stop import Stop

logger = logging.getLogger("tinyjobs.worker")

# The last part of the timeout, kept for giving jobs back, and how long a cut coroutine may take for its clean-up.
_RELEASE_SHARE = 0.25
_LEAST_RELEASE = 1.0
#: A shorter shutdown timeout would leave nothing for giving jobs back.
LEAST_TIMEOUT = _LEAST_RELEASE + 0.25


class Shutdown:
    """One wind-down of one worker, `timeout` seconds from the moment it was asked for. Leaves the store in a hurry."""

    def __init__(
        self,
        engine: Engine,
        stop: Stop,
        timeout: float,
        coroutines: CoroutineExecutor,
        threads: ThreadExecutor,
        recorder: Recorder,
        idler: Idler,
    ) -> None:
        self._engine = engine
        self._stop = stop
        self._coroutines = coroutines
        self._threads = threads
        self._recorder = recorder
        self._idler = idler
        timeout = max(timeout, LEAST_TIMEOUT)
        self._release_share = max(timeout * _RELEASE_SHARE, _LEAST_RELEASE)
        # A job that blocked the loop may have used the time up; what it leaves is enough to give jobs back.
        self._end = max(stop.asked_at + timeout, self._now() + LEAST_TIMEOUT)
        self._jobs_end = self._end - self._release_share
        self._has_failed = False

    async def run(self) -> None:
        """Return once nothing that can be waited for is left."""
        self._engine.store.hurry(self._end)
        for call in self._threads.take_back():
            self._recorder.add(hand_back(self._engine, call.job))
        self._say_what_runs()
        await self._settle_until(self._jobs_end, patient=True)
        await self._cut_coroutines()
        await self._wait_for_threads()
        self._give_up()

    async def _cut_coroutines(self) -> None:
        if self._coroutines.running():
            logger.info("%d coroutine jobs are cut and go back to the queue", len(self._coroutines.running()))
            self._coroutines.cut()
            await self._settle_until(self._end, patient=False)
            self._coroutines.cut()
        for call in self._coroutines.running():
            logger.warning(
                "job %s (%s) ignores its cancellation and is left behind; it comes back when its lease runs out",
                call.job.id,
                call.spec.name,
                extra=facts_of(call.job),
            )

    async def _wait_for_threads(self) -> None:
        """Keep what runs in threads, for as long as it takes; what returns last gets a release share of its own."""
        is_kept = False
        while self._threads.running():
            if not is_kept and (self._stop.is_forced or self._now() >= self._jobs_end):
                is_kept = True
                names = ", ".join(sorted({call.spec.name for call in self._threads.running()}))
                logger.info("waiting for functions in threads, which cannot be stopped: %s", names)
                self._engine.store.hurry(None)
            if not await self._record_some():
                await self._idler.pause(0.25)
        if is_kept:
            self._end = max(self._end, self._now() + self._release_share)
            self._engine.store.hurry(self._end)
        await self._settle_until(self._end, patient=False)

    async def _settle_until(self, end: float, *, patient: bool) -> None:
        """Record what ends until nothing runs, the time is up, or, when patient, a second signal came."""
        while self._now() < end and not (patient and self._stop.is_forced):
            if await self._record_some():
                continue
            if not self._coroutines.running() and not (patient and self._threads.running()):
                return
            await self._idler.pause(min(0.25, max(end - self._now(), 0.0)))

    async def _record_some(self) -> bool:
        """Write one group, if there is one. One that fails is tried again, whatever the reason: there is no later."""
        group = self._recorder.take()
        if not group:
            return False
        try:
            recorded = await self._engine.store.record([conclusion.outcome for conclusion in group])
        except Exception as error:
            self._recorder.put_back(group)
            self._engine.hooks.report("recorder", error)
            if not self._has_failed:
                self._has_failed = True
                logger.warning("outcomes could not be recorded, trying again until the end: %s", error)
            await self._idler.pause(0.1)
        else:
            await self._recorder.settle(group, recorded)
        return True

    def _give_up(self) -> None:
        if len(self._recorder):
            logger.error(
                "%d outcomes could not be recorded before the end; their jobs come back when their leases run out",
                len(self._recorder),
            )

    def _say_what_runs(self) -> None:
        running = len(self._coroutines.running()) + len(self._threads.running())
        if running:
            logger.info("stopping, once what still runs has ended: %d %s", running, "job" if running == 1 else "jobs")

    def _now(self) -> float:
        return self._engine.clock.monotonic()
