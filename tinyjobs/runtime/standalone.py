"""A scheduler that runs by itself, until it is told to stop: for whoever wants it apart from the workers."""

import asyncio
import threading
from dataclasses import dataclass

from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.firing import MISFIRE_GRACE
from tinyjobs.core.sight import out_of_sight
from tinyjobs.runtime.beating import Beating, describe
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.identity import make_worker_id
from tinyjobs.runtime.scheduler import Scheduler
from tinyjobs.runtime.stop import Stop

# How long the end waits for a firing that is under way, and for whoever is told of it, in seconds.
_LAST_FIRING = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerReport:
    """What a scheduler did: jobs made, and firings that found the last job still active."""

    fired: int = 0
    skipped: int = 0


class StandaloneScheduler:
    """Fires the schedules of an engine's store. `run` may be called again after it returned."""

    def __init__(self, engine: Engine, *, grace: float = MISFIRE_GRACE) -> None:
        self.engine = engine
        self.scheduler_id = make_worker_id()
        self.grace = grace
        self._stop = Stop(engine.clock.monotonic)
        self._ending: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def stop(self) -> None:
        """Ask for the end, from any thread. Before `run`, that run returns at once."""
        self._stop.ask()
        self._wake()

    def force(self, answered: threading.Event | None = None) -> None:
        """The same: what is waited for is bounded as it is."""
        self.stop()
        if answered is not None:
            answered.set()

    async def run(self) -> SchedulerReport:
        """Fire until `stop`. Raises what no pass can mend."""
        if self.engine.timetable is None:
            raise ConfigurationError("This engine has no timetable, so there is nothing to schedule.")
        scheduler = Scheduler(self.engine, self.engine.timetable, self.grace)
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._ending = loop, ending
        tasks: list[asyncio.Task[object]] = [
            out_of_sight(loop.create_task(scheduler.run())),
            out_of_sight(loop.create_task(ending.wait())),
        ]
        beating = Beating(
            self.engine,
            lambda: describe(self.scheduler_id, is_stopping=self._stop.is_asked, scheduled_at=scheduler.passed_at),
        )
        beating.start()
        try:
            if self._stop.is_asked:
                ending.set()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._ending = None
            # A firing under way may end; a store that does not answer is not waited for.
            self.engine.store.hurry(self.engine.clock.monotonic() + _LAST_FIRING)
            for task in tasks:
                task.cancel()
            ended, _ = await asyncio.gather(*tasks, return_exceptions=True)
            await scheduler.told(_LAST_FIRING)
            await self.engine.hooks.reported(_LAST_FIRING)
            await beating.end()
            self.engine.store.hurry(None)
            self._stop.clear()
        if isinstance(ended, Exception):
            raise ended
        return SchedulerReport(fired=scheduler.fired, skipped=scheduler.skipped)

    def _wake(self) -> None:
        if self._ending is None:
            return
        loop, ending = self._ending
        try:
            loop.call_soon_threadsafe(ending.set)
        except RuntimeError:
            return  # its loop has ended since, and the scheduler with it
