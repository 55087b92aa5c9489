"""How an app opens and closes, and the workers, schedulers and drains that a close stops first.

A close first asks them to stop and lets them record what they run. Called from inside a job or a hook it cannot wait
for that: then it takes effect once everything that runs has ended.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context

from tinyjobs.app.access import OpenStore, StoreAccess, refuse_inside_loop
from tinyjobs.app.election import beside
from tinyjobs.app.loop import closed
from tinyjobs.app.timetable import AppTimetable
from tinyjobs.app.undisturbed import undisturbed
from tinyjobs.backends.base import Backend
from tinyjobs.core.errors import AppClosedError, StoreError
from tinyjobs.core.inline import finish
from tinyjobs.runtime.drain import Drain
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.standalone import SchedulerReport, StandaloneScheduler
from tinyjobs.runtime.worker import Worker, WorkerReport


class Life:
    """The opening and closing of an app: its store and those who work on it."""

    def __init__(self, access: StoreAccess) -> None:
        self.access = access
        # One for each `with` block that is open. Changed by single calls of a built-in type, as a roster is.
        self._blocks: list[None] = []

    def open(self, instead: str) -> None:
        """See `TinyJobs.start`. A close that is under way comes to its end first, also one whose caller has left."""
        refuse_inside_loop(instead)
        while True:
            if (leaving := self.access.current).will_close:
                self.close(leaving)
            opened = self.access.reopened()
            try:
                self.access.connect(instead)
            except AppClosedError:
                if opened.is_closed:
                    continue  # by a close that came while this was connecting
                raise
            return

    async def aopen(self) -> None:
        """The same from an event loop."""
        while True:
            if (leaving := self.access.current).will_close:
                await self.aclose(leaving)
            opened = self.access.reopen()
            try:
                await self.access.aconnect()
            except AppClosedError:
                if opened.is_closed:
                    continue
                raise
            return

    def enter(self, instead: str) -> None:
        """Open the app for a block, which may stand within others, or beside them in other threads and tasks."""
        self.open(instead)
        self._blocks.append(None)
        if self.access.current.will_close:
            # Whoever has just left the block that was the last may not have seen this one.
            try:
                self.open(instead)
            except BaseException:
                self._blocks.pop()
                raise

    async def aenter(self) -> None:
        """The same from an event loop."""
        await self.aopen()
        self._blocks.append(None)
        if self.access.current.will_close:
            try:
                await self.aopen()
            except BaseException:
                self._blocks.pop()
                raise

    def leave(self) -> OpenStore | None:
        """Note that a block has ended. An answer: it was the last, and has to close that store.

        Not the app: whoever enters from now on closes that store too and opens the next, which may be sooner.
        """
        self._blocks.pop()
        if self._blocks:
            return None
        opened = self.access.current
        opened.is_left = True
        # Looked at once more after that was noted: of this and a block that begins, the later one finds the other.
        if self._blocks:
            opened.is_left = False
            return None
        return opened

    def close(self, opened: OpenStore | None = None) -> None:
        """See `TinyJobs.close`; of the current store if not told which. An interrupt ends the wait, not the close."""
        leaving, caller = opened or self.access.current, threading.get_ident()
        leaving.is_leaving = True
        undisturbed(lambda: self._close(leaving, caller))

    async def aclose(self, opened: OpenStore | None = None) -> None:
        """The same from an event loop. Whoever is cancelled meanwhile has left the close to itself: it goes on."""
        leaving = opened or self.access.current
        leaving.is_leaving = True
        leaving.roster.shut()  # before it is looked at: whoever enters after that look would lose the store
        if leaving.is_closed or leaving.roster.is_idle:
            await self.access.aclose(leaving)
        else:
            await beside(lambda: self._close(leaving, None), "tinyjobs-close")

    def _close(self, opened: OpenStore, caller: int | None) -> None:
        if opened.is_closed or opened.roster.dismiss(caller):
            self.access.close(opened, asked_by=caller)

    def drain(
        self, engine_over: Callable[[Backend], Engine], queues: Sequence[str], limit: int | None, patience: float
    ) -> int:
        """Run what is due in this thread; see `TinyJobs.drain`. A close lets the job under way end, for `patience`."""
        opened = self.access.connect("await asyncio.to_thread(app.drain)")
        # One loop for all of it, so that what a coroutine task keeps between jobs stays usable.
        with asyncio.Runner() as runner:
            drain = Drain(
                engine_over(opened.for_engine),
                run_coroutine=lambda coroutine: runner.run(coroutine, context=copy_context()),
            )
            return self.run(opened, drain, lambda: drain.run(queues=queues, limit=limit), patience)

    def run[T](self, opened: OpenStore, drain: Drain, work: Callable[[], T], patience: float) -> T:
        """Let a drain of that store work in this thread, as one that a close knows of."""
        call = None
        try:
            call = _called(work)
            opened.roster.enter(call, drain.stop, patience, drain.worker_id, drain.cut, threading.get_ident())
            value = finish(call)
        except StoreError as error:
            if opened.is_closed:
                raise closed() from error
            raise
        finally:
            if call is not None:
                call.close()
                if opened.roster.leave(call):
                    caller = threading.get_ident()
                    undisturbed(lambda: self.access.close(opened, asked_by=caller))
        if drain.was_cut:
            raise closed()
        return value


async def _called[T](work: Callable[[], T]) -> T:
    return work()


class AppWorker(Worker):
    """A worker that connects its app when it starts, and that a close of the app stops and waits for."""

    def __init__(
        self,
        settings: WorkerSettings,
        life: Life,
        engine_over: Callable[[Backend], Engine],
        timetable: AppTimetable,
    ) -> None:
        super().__init__(engine_over(life.access.current.for_engine), settings)
        self._timetable = timetable
        self._life = life
        self._engine_over = engine_over

    async def run(self) -> WorkerReport:
        """See `Worker.run`. Opens a closed app again."""
        if self.settings.fires_schedules:
            self._timetable.refuse_problems()
        opened = await self._life.access.aconnect_worker()
        try:
            opened.roster.enter(self, self.stop, self.settings.shutdown_timeout, self.worker_id)
            async with opened.for_worker() as store:
                self.engine = self._engine_over(store)
                return await super().run()
        finally:
            if opened.roster.leave(self):
                await self._life.access.aclose(opened)


class AppScheduler(StandaloneScheduler):
    """A scheduler that connects its app when it starts, and that a close of the app stops and waits for."""

    def __init__(
        self,
        grace: float,
        life: Life,
        engine_over: Callable[[Backend], Engine],
        timetable: AppTimetable,
    ) -> None:
        super().__init__(engine_over(life.access.current.for_engine), grace=grace)
        self._timetable = timetable
        self._life = life
        self._engine_over = engine_over

    async def run(self) -> SchedulerReport:
        """See `StandaloneScheduler.run`. Opens a closed app again."""
        self._timetable.refuse_problems()
        opened = await self._life.access.aconnect_worker()
        try:
            opened.roster.enter(self, self.stop, 0.0)
            async with opened.for_worker() as store:
                self.engine = self._engine_over(store)
                return await super().run()
        finally:
            if opened.roster.leave(self):
                await self._life.access.aclose(opened)
