"""Running an alias's jobs in the calling thread, on its own connections: for eager mode and for a project's tests.

The rules of a run are the runtime's; here it gets what Django adds: signals, a fence around each job, and asgiref's
way to run a coroutine from a thread.
"""

from collections.abc import Coroutine
from typing import Any, cast

from asgiref.sync import async_to_sync

from tinyjobs.core.job import Job
from tinyjobs.operations.telemetry import around
from tinyjobs.runtime.drain import Drain
from tinyjobs.runtime.engine import Engine
from tinyjobs.taskbackend.finished import Finished
from tinyjobs.taskbackend.hygiene import fence
from tinyjobs.taskbackend.shared import Shared


def run_now(shared: Shared, job_id: str) -> Job | None:
    """Run one job at once, as eager mode does; None when it is not due."""
    return drain_of(shared).run_one(job_id)


def drain_of(shared: Shared) -> Drain:
    """A drain over an alias's jobs, on the calling thread's own connections."""
    engine = Engine(
        store=shared.engine_store,
        catalogue=shared.catalogue,
        codecs=shared.codecs,
        clock=shared.clock,
        hooks=Finished(shared).hooks(),
        tracing=around,
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
