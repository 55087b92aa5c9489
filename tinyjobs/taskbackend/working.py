"""What runs an alias's jobs: the engine of a worker, with connections of its own, and the engine of a drain.

A command that runs a worker asks `open_engine`; a test or an eager call asks `drain_here`. This module decides which
parts each gets; the rules of a run are the runtime's.
"""

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from asgiref.sync import async_to_sync
from django.db import connections
from django.tasks import task_backends

from tinyjobs.backends.base import Backend
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.job import Job
from tinyjobs.runtime.drain import Drain
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.taskbackend.backend import TinyJobsBackend
from tinyjobs.taskbackend.deferred import send_pending
from tinyjobs.taskbackend.finished import Finished, FinishedInWorker
from tinyjobs.taskbackend.hygiene import Hygiene, fence
from tinyjobs.taskbackend.shared import Shared, check_store_options, vendor_of


def backend_of(alias: str) -> TinyJobsBackend:
    """The task backend of an alias; raises `ConfigurationError` when it is none of ours."""
    backend = task_backends[alias]
    if not isinstance(backend, TinyJobsBackend):
        ours = [name for name in task_backends if isinstance(task_backends[name], TinyJobsBackend)]
        raise ConfigurationError(
            f"TASKS[{alias!r}] is {type(backend).__module__}.{type(backend).__qualname__}, not a backend of tinyjobs. "
            f"Those are: {', '.join(ours) or 'none'}."
        )
    return backend


def worker_settings(alias: str, **given: Any) -> WorkerSettings:
    """The settings of a worker: those of the alias's OPTIONS, over them what is given (None: not given)."""
    settings = backend_of(alias).shared.settings
    chosen = {**settings.worker, **{name: value for name, value in given.items() if value is not None}}
    return WorkerSettings.parse(chosen, f"TASKS[{alias!r}]['OPTIONS'] or the command line")


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
    return vendor.open(connections[settings.database].settings_dict, shared.clock, settings.store)


def drain_here(alias: str = "default", *, queues: Sequence[str] = (), limit: int | None = None) -> int:
    """Run what is due, in this thread and on this thread's connections; how many jobs were run."""
    shared = backend_of(alias).shared
    drain = _drain(shared)
    done = 0
    while True:
        # What waits for a commit that a test's transaction will never make goes first, also what a job sent.
        send_pending()
        ran = drain.run(queues=queues, limit=None if limit is None else limit - done)
        done += ran
        if ran == 0 or shared.settings.database is not None:
            return done


def run_now(shared: Shared, job_id: str) -> Job | None:
    """Run one job at once, as eager mode does; None when it is not due."""
    return _drain(shared).run_one(job_id)


def _drain(shared: Shared) -> Drain:
    engine = Engine(
        store=shared.engine_store,
        catalogue=shared.catalogue,
        codecs=shared.codecs,
        clock=shared.clock,
        hooks=Finished(shared).hooks(),
        max_result_bytes=shared.settings.max_result_bytes,
    )
    return Drain(
        engine,
        run_coroutine=_run_coroutine,
        savepoint=fence,
        in_own_thread=False,
        # In the caller's transaction nobody else sees the job, and no thread of ours could renew its lease.
        keeps_lease=shared.settings.database is None,
    )


def _run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def run() -> Any:
        return await coroutine

    return cast(Any, async_to_sync(run)())
