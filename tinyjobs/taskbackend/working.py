"""Running the jobs of an alias by its name: the engine of a worker, with connections of its own, and a drain.

A command that runs a worker asks `open_engine`, a test asks `drain_here`. This module decides which parts an engine
gets; the rules of a run are the runtime's.
"""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from tinyjobs.backends.base import Backend
from tinyjobs.runtime.engine import Engine
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.deferred import send_pending
from tinyjobs.taskbackend.draining import drain_of
from tinyjobs.taskbackend.finished import FinishedInWorker
from tinyjobs.taskbackend.hygiene import Hygiene
from tinyjobs.taskbackend.shared import Shared, check_store_options, vendor_of


@contextmanager
def open_engine(alias: str = "default") -> Generator[Engine]:
    """An engine for a worker: a store with connections of its own, hygiene around each job, Django's signals.

    Opens nothing before the store is first used. `setup()` of its store checks the tables and never makes them in a
    Django database. Everything is closed at the end of the block.
    """
    shared = backend_of(alias).shared
    hygiene, finished = Hygiene(), FinishedInWorker(shared)
    store = open_store(shared)
    engine = Engine(
        store=store,
        catalogue=shared.catalogue,
        codecs=shared.codecs,
        clock=shared.clock,
        hooks=finished.hooks(),
        around=hygiene,
        max_result_bytes=shared.settings.max_result_bytes,
    )
    try:
        yield engine
    finally:
        finished.close()
        hygiene.close()
        if shared.settings.database is not None:
            asyncio.run(store.close())


def open_store(shared: Shared) -> Backend:
    """The store of an alias with connections of its own, as workers and commands use it."""
    settings = shared.settings
    if settings.database is None:
        return shared.home
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
