"""Running the jobs of an alias by its name: a worker or a scheduler, with connections of its own, and a drain.

A command asks `open_worker` or `open_scheduler`, a test asks `drain_here`. This module decides which parts an engine
gets; the rules of a run are the runtime's.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

from tinyjobs.backends.base import Backend
from tinyjobs.core.firing import MISFIRE_GRACE
from tinyjobs.operations.telemetry import around
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.standalone import SchedulerReport, StandaloneScheduler
from tinyjobs.runtime.worker import Worker, WorkerReport
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.deferred import send_pending
from tinyjobs.taskbackend.draining import drain_of
from tinyjobs.taskbackend.finished import FinishedInWorker
from tinyjobs.taskbackend.hygiene import Hygiene
from tinyjobs.taskbackend.shared import Shared, check_store_options, vendor_of


class ProjectWorker(Worker):
    """A worker whose store may be bound to the event loop that runs it."""

    async def run(self) -> WorkerReport:
        """See `Worker.run`. Raises `SchemaMissingError` before the first `migrate`."""
        async with _on_this_loop(self.engine):
            return await super().run()


class ProjectScheduler(StandaloneScheduler):
    """The same for a scheduler."""

    async def run(self) -> SchedulerReport:
        """See `StandaloneScheduler.run`. Raises `SchemaMissingError` before the first `migrate`."""
        async with _on_this_loop(self.engine):
            return await super().run()


@contextmanager
def open_worker(alias: str = "default", settings: WorkerSettings | None = None) -> Generator[Worker]:
    """A worker: a store with connections of its own, hygiene around each job, Django's signals.

    Opens nothing before it runs. In a Django database it checks the tables and never makes them. Everything is closed
    at the end of the block.
    """
    with _open_engine(alias) as engine:
        yield ProjectWorker(engine, settings)


@contextmanager
def open_scheduler(alias: str = "default", *, grace: float = MISFIRE_GRACE) -> Generator[StandaloneScheduler]:
    """A scheduler without a worker, in the same way."""
    with _open_engine(alias) as engine:
        yield ProjectScheduler(engine, grace=grace)


@contextmanager
def _open_engine(alias: str) -> Generator[Engine]:
    shared = backend_of(alias).shared
    store = open_store(shared)
    hygiene, finished = Hygiene(), FinishedInWorker(shared, store)
    engine = Engine(
        store=store,
        catalogue=shared.catalogue,
        codecs=shared.codecs,
        clock=shared.clock,
        hooks=finished.hooks(),
        around=hygiene,
        tracing=around,
        timetable=shared.timetable,
        max_result_bytes=shared.settings.max_result_bytes,
        retention=shared.settings.retention,
    )
    try:
        yield engine
    finally:
        finished.close()
        hygiene.close()
        if shared.settings.database is not None and not store.capabilities.loop_bound:
            asyncio.run(store.close())


@asynccontextmanager
async def _on_this_loop(engine: Engine) -> AsyncGenerator[None]:
    """Set up and close a store that is bound to a loop on the one that runs now."""
    store = engine.store
    if not store.capabilities.loop_bound:
        yield
        return
    try:
        await store.setup()
        yield
    finally:
        # What still waits for the store now, such as a renewal of leases, is worth no wait.
        store.hurry(engine.clock.monotonic())
        await store.close()


def open_store(shared: Shared) -> Backend:
    """The store of an alias with connections of its own, as workers and commands use it."""
    settings = shared.settings
    if settings.database is None:
        home = shared.home
        # The calls of this process go on with the one that is shared.
        return home.apart() if home.capabilities.loop_bound else home
    vendor = vendor_of(settings)
    check_store_options(settings, vendor)
    return vendor.open(settings.database, shared.clock, settings.store)


def drain_here(alias: str = "default", *, queues: Sequence[str] = (), limit: int | None = None) -> int:
    """Run what is due, in this thread and on this thread's connections; how many jobs were run."""
    shared = backend_of(alias).shared
    drain = drain_of(shared)
    done = 0
    while True:
        # What waits for a commit that a test's transaction will never make goes first, also what a job sent.
        send_pending()
        ran = drain.run(queues=queues, limit=None if limit is None else limit - done)
        done += ran
        if ran == 0 or shared.settings.database is not None:
            return done
