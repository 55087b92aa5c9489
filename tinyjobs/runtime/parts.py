"""What a worker is made of while it runs, and what it has to say of itself at the end."""

import asyncio
from dataclasses import dataclass, field

from tinyjobs.core.job import Job
from tinyjobs.executors.coroutine import CoroutineExecutor
from tinyjobs.executors.thread import ThreadExecutor
from tinyjobs.runtime.beating import Beating
from tinyjobs.runtime.emptiness import Emptiness
from tinyjobs.runtime.hooks import HookRunner
from tinyjobs.runtime.idle import Idler
from tinyjobs.runtime.leases import LeaseKeeper
from tinyjobs.runtime.recorder import Recorder
from tinyjobs.runtime.scheduler import Scheduler
from tinyjobs.runtime.unknown import UnknownTasks
from tinyjobs.runtime.upkeep import Upkeep


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a worker did. `expired` jobs were ended without a run. `left_delayed` counts jobs that
    wait for their time; `forced`: a second signal ended it."""

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    expired: int = 0
    left_delayed: int = 0
    forced: bool = False


@dataclass(slots=True)
class Parts:
    """What exists only while the worker runs, on its loop."""

    loop: asyncio.AbstractEventLoop
    coroutines: CoroutineExecutor
    threads: ThreadExecutor
    hooks: HookRunner
    recorder: Recorder
    keeper: LeaseKeeper
    upkeep: Upkeep
    idler: Idler
    #: For a worker that runs until its store is empty.
    emptiness: Emptiness | None
    unknown: UnknownTasks
    beating: Beating
    scheduler: Scheduler | None
    #: From here on the shutdown alone says how long the store is waited for.
    is_ending: bool = False
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def running(self) -> list[Job]:
        """The jobs whose function runs. From any thread."""
        return [call.job for call in (*self.coroutines.running(), *self.threads.running())]

    def report(self, left: int | None, *, forced: bool) -> WorkerReport:
        """What was done; `left` jobs wait for their time."""
        return WorkerReport(
            succeeded=self.recorder.succeeded,
            failed=self.recorder.failed,
            retried=self.recorder.retried,
            expired=self.recorder.expired + self.upkeep.expired,
            left_delayed=left or 0,
            forced=forced,
        )
