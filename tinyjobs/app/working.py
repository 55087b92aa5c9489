"""What an app has running: its workers and drains, and how a close waits for them.

A close first asks the workers to stop and lets them record what they run. Called from inside a job it cannot wait for
that job: then it takes effect once everything that runs has ended.
"""

import threading
from collections.abc import Callable

from tinyjobs.app.access import StoreAccess
from tinyjobs.app.timetable import AppTimetable
from tinyjobs.backends.base import Backend
from tinyjobs.core.context import current_job
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.standalone import SchedulerReport, StandaloneScheduler
from tinyjobs.runtime.worker import Worker, WorkerReport

# For what comes after the last job: hooks, the worker's own end.
_MARGIN = 5.0


class Roster:
    """Who is working for one app right now. Each entry knows how to be stopped and how long that may take."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working: dict[object, tuple[Callable[[], None], float]] = {}
        self._close_when_idle = False

    def renew_after_fork(self) -> None:
        """In a forked child nobody works: the threads that did are the parent's."""
        self._changed = threading.Condition()
        self._working = {}
        self._close_when_idle = False

    def enter(self, who: object, stop: Callable[[], None], patience: float) -> None:
        """Note that `who` works now."""
        with self._changed:
            self._working[who] = (stop, patience + _MARGIN)

    def leave(self, who: object) -> bool:
        """Note that `who` has ended. True: it was the last one a close waits for, and has to close the app."""
        with self._changed:
            self._working.pop(who, None)
            self._changed.notify_all()
            must_close = self._close_when_idle and not self._working
            if must_close:
                self._close_when_idle = False
            return must_close

    def dismiss(self) -> bool:
        """Stop everybody and wait. False: this is one of their jobs, so the close is left to whoever ends last."""
        with self._changed:
            entries = list(self._working.values())
            if entries and current_job() is not None:
                self._close_when_idle = True
        for stop, _ in entries:
            stop()
        if entries and current_job() is not None:
            return False
        with self._changed:
            self._changed.wait_for(lambda: not self._working, max((patience for _, patience in entries), default=0.0))
        return True

    @property
    def is_idle(self) -> bool:
        """Whether nobody works."""
        return not self._working


class AppWorker(Worker):
    """A worker that connects its app when it starts, and that a close of the app stops and waits for."""

    def __init__(
        self,
        settings: WorkerSettings,
        access: StoreAccess,
        roster: Roster,
        engine_over: Callable[[Backend], Engine],
        timetable: AppTimetable,
    ) -> None:
        super().__init__(engine_over(access.current.for_engine), settings)
        self._timetable = timetable
        self._access = access
        self._roster = roster
        self._engine_over = engine_over

    async def run(self) -> WorkerReport:
        """See `Worker.run`. Opens a closed app again."""
        if self.settings.fires_schedules:
            self._timetable.refuse_problems()
        opened = await self._access.aconnect_worker()
        self._roster.enter(self, self.stop, self.settings.shutdown_timeout)
        try:
            async with opened.for_worker() as store:
                self.engine = self._engine_over(store)
                return await super().run()
        finally:
            if self._roster.leave(self):
                await self._access.aclose()


class AppScheduler(StandaloneScheduler):
    """A scheduler that connects its app when it starts, and that a close of the app stops and waits for."""

    def __init__(
        self,
        grace: float,
        access: StoreAccess,
        roster: Roster,
        engine_over: Callable[[Backend], Engine],
        timetable: AppTimetable,
    ) -> None:
        super().__init__(engine_over(access.current.for_engine), grace=grace)
        self._timetable = timetable
        self._access = access
        self._roster = roster
        self._engine_over = engine_over

    async def run(self) -> SchedulerReport:
        """See `StandaloneScheduler.run`. Opens a closed app again."""
        self._timetable.refuse_problems()
        opened = await self._access.aconnect_worker()
        self._roster.enter(self, self.stop, 0.0)
        try:
            async with opened.for_worker() as store:
                self.engine = self._engine_over(store)
                return await super().run()
        finally:
            if self._roster.leave(self):
                await self._access.aclose()
