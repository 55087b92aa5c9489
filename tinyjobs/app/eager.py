"""Eager mode: a call that sends a job runs that job, and no other, before it returns.

By the rules of a drain, with the claim of the one job by its id. Nothing here makes a job, or decides how it runs.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from typing import Any

from tinyjobs.app.access import OpenStore
from tinyjobs.app.results import JobHandle, Looks, Source
from tinyjobs.app.working import Life
from tinyjobs.backends.base import Backend
from tinyjobs.core.status import JobStatus
from tinyjobs.runtime.drain import Drain, RunCoroutine, run_on_own_loop
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.identity import make_worker_id
from tinyjobs.runtime.renewal import LeaseRenewal
from tinyjobs.runtime.settings import WorkerSettings

_PATIENCE = WorkerSettings().shutdown_timeout
# How often it is looked whether the loop that was given a coroutine is still there.
_GLANCE = 0.5


class Eager:
    """Runs the jobs of one app as they are sent, from threads and from event loops."""

    def __init__(self, life: Life, engine_over: Callable[[Backend], Engine], source: Source) -> None:
        self._life = life
        self._engine_over = engine_over
        self._source = source
        # For the store as it was opened last. A dict, since one call fills it, whatever threads come at once.
        self._sessions: dict[OpenStore, _Session] = {}

    def refuse_closing(self) -> None:
        """Raise `AppClosedError` once a close has begun, before a job is written that nobody here would run."""
        self._life.access.current.roster.refuse_closing()

    def run(self, jobs: Sequence[JobHandle]) -> None:
        """Run each job that was not `existing`, in this thread; the handles are read again.

        A job that is not due stays. One that somebody else took first is waited for. Raises `UnknownTaskError` for a
        task of nobody's here, and leaves the job queued.
        """
        session = self._session()
        for job in jobs:
            if not job.record.existing:
                self._run(job, session, session.drain(run_on_own_loop))

    async def arun(self, jobs: Sequence[JobHandle]) -> None:
        """The same from an event loop: coroutines run on this loop, plain functions on a thread beside it.

        A caller who leaves takes the coroutine that runs along; its job goes back to the queue.
        """
        loop = asyncio.get_running_loop()
        session = self._session()
        for job in jobs:
            if job.existing:
                continue
            drain = session.drain(partial(_run_on, loop))
            answer: Future[None] = Future()
            answer.set_running_or_notify_cancel()  # from here on a waiter who leaves does not cancel it

            def work(job: JobHandle = job, drain: Drain = drain, answer: "Future[None]" = answer) -> None:
                try:
                    self._run(job, session, drain)
                except BaseException as error:
                    answer.set_exception(error)
                else:
                    answer.set_result(None)

            name = f"tinyjobs-eager-{job.task}"
            threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()
            try:
                await asyncio.wrap_future(answer)
            except asyncio.CancelledError:
                drain.cut()
                raise

    def _run(self, job: JobHandle, session: "_Session", drain: Drain) -> None:
        job_id = job.record.id
        ran = self._life.run(session.opened, drain, lambda: drain.run_one(job_id), _PATIENCE)
        if ran is not None:
            job.record = ran
            return
        looks = Looks(self._source, None)
        while job.refresh().status is JobStatus.RUNNING:
            threading.Event().wait(looks.pause(job))

    def _session(self) -> "_Session":
        opened = self._source.access.current
        session = self._sessions.get(opened)
        if session is None:
            session = self._sessions.setdefault(opened, _Session(opened, self._engine_over(opened.for_engine)))
            for other in self._sessions.copy().keys() - {opened}:
                self._sessions.pop(other, None)
        return session


class _Session:
    """What all eager calls on one store have in common, from its opening to its closing."""

    def __init__(self, opened: OpenStore, engine: Engine) -> None:
        self.opened = opened
        self._engine = engine
        self._store = engine.store.inline()
        self._leases = LeaseRenewal(engine)
        opened.when_closed.append(self._leases.stop)
        self._name = make_worker_id()
        self._numbers = itertools.count()

    def drain(self, run_coroutine: RunCoroutine) -> Drain:
        """A drain for one job."""
        return Drain(
            self._engine,
            run_coroutine=run_coroutine,
            leases=self._leases,
            worker_id=f"{self._name}-{next(self._numbers)}",
            store=self._store,
        )


def _run_on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What the coroutine returns on a loop of another thread. Cancelled where that loop ends before it begins."""
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        while not _is_done(future):
            if loop.is_closed():
                raise RuntimeError("the loop was closed before it took the coroutine up")
    except RuntimeError as error:
        coroutine.close()
        raise asyncio.CancelledError from error
    return future.result()


def _is_done(future: "Future[Any]") -> bool:
    return bool(wait([future], _GLANCE).done)
