"""What an app has running: its workers and drains, and how a close waits for them.

A close first asks them to stop and lets them record what they run. Called from inside a job or a hook it cannot wait
for that: then it takes effect once everything that runs has ended.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from tinyjobs.app.access import OpenStore, StoreAccess, refuse_inside_loop
from tinyjobs.app.election import beside
from tinyjobs.app.loop import closed
from tinyjobs.app.timetable import AppTimetable
from tinyjobs.app.undisturbed import undisturbed
from tinyjobs.backends.base import Backend
from tinyjobs.core.context import current_job
from tinyjobs.core.errors import AppClosedError, StoreError
from tinyjobs.core.inline import finish
from tinyjobs.runtime.drain import Drain
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import telling
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.standalone import SchedulerReport, StandaloneScheduler
from tinyjobs.runtime.worker import Worker, WorkerReport

# For what comes after the last job: hooks, the worker's own end.
_MARGIN = 5.0


# For a coroutine that was cut to go, and its job to go back.
_CUTTING = 1.0
# How often a close looks whether everybody has gone.
_GLANCE = 0.01


@dataclass(slots=True, eq=False)
class _Entry:
    """How to stop somebody, for how long to wait then, under which id jobs are claimed, and what cuts it short.

    `thread`: the one a drain has for itself, on which its hooks and a signal handler may close the app.
    """

    stop: Callable[[], None]
    patience: float
    worker_id: str | None
    cut: Callable[[], None] | None
    thread: int | None


class Roster:
    """Who is working for one app right now.

    A drain is here as a coroutine, which says by itself whether it has ended, so no interrupt can leave it here. There
    is no lock: a signal handler that closes the app waits for another thread, which could not get one that is held
    where the handler struck. All is changed by single calls of built-in types.
    """

    def __init__(self) -> None:
        self._working: dict[Any, _Entry] = {}
        self._is_closing = False
        self._close_when_idle = False

    def renew_after_fork(self) -> None:
        """In a forked child nobody works: the threads that did are the parent's."""
        self._working = {}
        self.welcome()

    def refuse_closing(self) -> None:
        """Raise `AppClosedError` once a close has begun."""
        if self._is_closing:
            raise closed()

    def enter(
        self,
        who: object,
        stop: Callable[[], None],
        patience: float,
        worker_id: str | None = None,
        cut: Callable[[], None] | None = None,
        thread: int | None = None,
    ) -> None:
        """Note that `who` works now. Raises `AppClosedError` once a close has begun."""
        self._working[who] = _Entry(stop, patience + _MARGIN, worker_id, cut, thread)
        # Looked at after it was noted: whichever of this and a close comes last finds the other.
        if self._is_closing:
            self._working.pop(who, None)
            raise closed()

    def leave(self, who: object) -> bool:
        """Note that `who` has ended. True: it was the last one a close waits for, and has to close the app."""
        self._working.pop(who, None)
        must_close = self._close_when_idle and self.is_idle
        if must_close:
            self._close_when_idle = False
        return must_close

    def dismiss(self, caller: int | None = None) -> bool:
        """Stop everybody, let nobody begin, and wait. False: a job or a hook of theirs asked, and ends before they do.

        Then the close is left to whoever ends last. `caller`: the thread that waits, which may be that of a drain.
        """
        self._is_closing = True
        entries = self._entries()
        is_own = _is_one_of(entries, caller)
        self._close_when_idle = self._close_when_idle or is_own
        for entry in entries:
            entry.stop()
        # Looked at once more after that was noted: a worker that has left a hook behind may just be ending.
        if is_own and not self.is_idle:
            return False
        if not self._wait_until_idle(max((entry.patience for entry in entries), default=0.0)):
            for entry in self._entries():
                if entry.cut is not None:
                    entry.cut()
            self._wait_until_idle(_CUTTING)
        return True

    def _wait_until_idle(self, seconds: float) -> bool:
        while not self.is_idle and seconds > 0:
            threading.Event().wait(_GLANCE)
            seconds -= _GLANCE
        return self.is_idle

    def welcome(self) -> None:
        """The close is over, or the app is opened again: whoever comes may work."""
        self._is_closing = self._close_when_idle = False

    @property
    def is_idle(self) -> bool:
        """Whether nobody works."""
        return not self._entries()

    def _entries(self) -> list[_Entry]:
        """Of those who have not ended."""
        return [entry for who, entry in list(self._working.items()) if getattr(who, "cr_frame", who) is not None]


def _is_one_of(entries: Sequence[_Entry], caller: int | None) -> bool:
    """Whether this code is a job or a hook of one of them, or on the thread of one: they end only after it."""
    job = current_job()
    own = {telling.get(), None if job is None else job.worker_id} - {None}
    return any(entry.worker_id in own or (caller is not None and entry.thread == caller) for entry in entries)


class Life:
    """The opening and closing of an app: its store and those who work on it."""

    def __init__(self, access: StoreAccess) -> None:
        self.access = access
        self.roster = Roster()
        # One for each `with` block that is open. Changed by single calls of a built-in type, as all of the roster is.
        self._blocks: list[None] = []

    def open(self, instead: str) -> None:
        """See `TinyJobs.start`. A close that is under way comes to its end first, also one whose caller has left."""
        refuse_inside_loop(instead)
        while True:
            if self.access.current.is_leaving:
                self.close()
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
            if self.access.current.is_leaving:
                await self.aclose()
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
        if self.access.current.is_leaving:
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
        if self.access.current.is_leaving:
            try:
                await self.aopen()
            except BaseException:
                self._blocks.pop()
                raise

    def leave(self) -> bool:
        """Note that a block has ended. True: it was the last, and has to close the app."""
        self._blocks.pop()
        if self._blocks:
            return False
        opened = self.access.current
        was_leaving, opened.is_leaving = opened.is_leaving, True
        # Looked at once more after that was noted: of this and a block that begins, the later one finds the other.
        if self._blocks:
            opened.is_leaving = was_leaving
            return False
        return True

    def close(self) -> None:
        """See `TinyJobs.close`. An interrupt ends the wait, and the close goes on."""
        opened, caller = self.access.current, threading.get_ident()
        opened.is_leaving = True
        undisturbed(lambda: self._close(opened, caller))

    async def aclose(self) -> None:
        """The same from an event loop. Whoever is cancelled meanwhile has left the close to itself: it goes on."""
        opened = self.access.current
        opened.is_leaving = True
        if opened.is_closed or self.roster.is_idle:
            await self.aclose_now(opened)
        else:
            await beside(lambda: self._close(opened, None), "tinyjobs-close")

    async def aclose_now(self, opened: OpenStore) -> None:
        """Close that store, where nobody works any more."""
        try:
            await self.access.aclose(opened)
        finally:
            self.roster.welcome()

    def close_now(self, opened: OpenStore, caller: int | None) -> None:
        """The same on a thread. `caller`: the thread that waits for it, if one does."""
        try:
            self.access.close(opened, asked_by=caller)
        finally:
            self.roster.welcome()

    def _close(self, opened: OpenStore, caller: int | None) -> None:
        if opened.is_closed or self.roster.dismiss(caller):
            self.close_now(opened, caller)

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
            self.roster.enter(call, drain.stop, patience, drain.worker_id, drain.cut, threading.get_ident())
            value = finish(call)
        except StoreError as error:
            if opened.is_closed:
                raise closed() from error
            raise
        finally:
            if call is not None:
                call.close()
                if self.roster.leave(call):
                    caller = threading.get_ident()
                    undisturbed(lambda: self.close_now(opened, caller))
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
            self._life.roster.enter(self, self.stop, self.settings.shutdown_timeout, self.worker_id)
            async with opened.for_worker() as store:
                self.engine = self._engine_over(store)
                return await super().run()
        finally:
            if self._life.roster.leave(self):
                await self._life.aclose_now(opened)


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
            self._life.roster.enter(self, self.stop, 0.0)
            async with opened.for_worker() as store:
                self.engine = self._engine_over(store)
                return await super().run()
        finally:
            if self._life.roster.leave(self):
                await self._life.aclose_now(opened)
