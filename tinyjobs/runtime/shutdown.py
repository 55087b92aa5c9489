"""A worker's last moments: wait for what runs, give back what can be given back, record everything.

Within the shutdown timeout coroutines may finish; then they are cut, and go back to the queue without using an
attempt. A function in a thread cannot be stopped, and giving its job back would let it run twice, so it is waited
for, its lease renewed, and the log says so. A second signal skips the waiting for coroutines.
"""

import logging
from typing import TYPE_CHECKING

from tinyjobs.core.trouble import is_transient
from tinyjobs.executors.coroutine import CoroutineExecutor
from tinyjobs.executors.thread import ThreadExecutor
from tinyjobs.runtime.attempt import hand_back
from tinyjobs.runtime.idle import Idler
from tinyjobs.runtime.recorder import Recorder

if TYPE_CHECKING:
    from tinyjobs.runtime.worker import Worker

logger = logging.getLogger("tinyjobs.worker")

# The last part of the timeout, kept for giving jobs back, and how long a cut coroutine may take for its clean-up.
_RELEASE_SHARE = 0.25
_LEAST_RELEASE = 1.0


class Shutdown:
    """One wind-down of one worker."""

    def __init__(
        self,
        worker: "Worker",
        coroutines: CoroutineExecutor,
        threads: ThreadExecutor,
        recorder: Recorder,
        idler: Idler,
    ) -> None:
        self._worker = worker
        self._engine = worker.engine
        self._coroutines = coroutines
        self._threads = threads
        self._recorder = recorder
        self._idler = idler
        self._began = worker.engine.clock.monotonic()
        timeout = max(worker.settings.shutdown_timeout, _LEAST_RELEASE + 0.25)
        self._end = self._began + timeout
        self._jobs_end = self._end - max(timeout * _RELEASE_SHARE, _LEAST_RELEASE)

    async def run(self) -> None:
        """Return once nothing that can be waited for is left."""
        self._engine.store.hurry(self._end)
        try:
            for call in self._threads.take_back():
                self._recorder.add(hand_back(self._engine, call.job))
            self._say_what_runs()
            await self._settle_until(self._jobs_end, patient=True)
            await self._cut_coroutines()
            await self._wait_for_threads()
        finally:
            self._engine.store.hurry(None)

    async def _cut_coroutines(self) -> None:
        if self._coroutines.running():
            logger.info("%d coroutine jobs are cut and go back to the queue", len(self._coroutines.running()))
            self._coroutines.cut()
            await self._settle_until(self._end, patient=False)
        for call in self._coroutines.running():
            logger.warning(
                "job %s (%s) ignores its cancellation and is left behind; it comes back when its lease runs out",
                call.job.id,
                call.spec.name,
            )

    async def _wait_for_threads(self) -> None:
        while self._threads.running() or len(self._recorder):
            if self._threads.running() and self._now() >= self._jobs_end:
                names = ", ".join(sorted({call.spec.name for call in self._threads.running()}))
                logger.info("waiting for functions in threads, which cannot be stopped: %s", names)
                self._jobs_end = self._end = float("inf")
                self._engine.store.hurry(None)
            if not await self._record() and not self._threads.running():
                break
            if not len(self._recorder):
                await self._idler.pause(0.25)

    async def _settle_until(self, end: float, *, patient: bool) -> None:
        """Record what ends until nothing runs, the time is up, or, when patient, a second signal came."""
        while self._now() < end and not (patient and self._worker.is_forced):
            if not len(self._recorder):
                if not self._coroutines.running() and not (patient and self._threads.running()):
                    return
                await self._idler.pause(min(0.25, max(end - self._now(), 0.0)))
            elif not await self._record():
                return

    async def _record(self) -> bool:
        """Write one group. False: the time is up and what is left goes to the reaper."""
        group = self._recorder.take()
        if not group:
            return True
        try:
            recorded = await self._engine.store.record([conclusion.outcome for conclusion in group])
            await self._recorder.settle(group, recorded)
        except Exception as error:
            self._engine.hooks.report("recorder", error)
            if not is_transient(error) or self._now() >= self._end:
                logger.error("%d outcomes could not be recorded before the end: %s", len(group), error)
                return False
            self._recorder.put_back(group, in_doubt=True)
            await self._idler.pause(0.1)
        return True

    def _say_what_runs(self) -> None:
        running = len(self._coroutines.running()) + len(self._threads.running())
        if running:
            logger.info("stopping: %d jobs still run and are waited for", running)

    def _now(self) -> float:
        return self._engine.clock.monotonic()
