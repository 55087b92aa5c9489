"""The worker: claim, execute, record, repeat.

The only thing that touches both a store and the executors. A worker claims only into free slots, so claiming is
starting. One write is in flight at a time: it records what has ended and claims what comes next, in one transaction,
while the outcomes that end meanwhile collect for the next.
"""

import asyncio
import logging
import os
import secrets
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyjobs.core.job import Claimed, ClaimRequest, Held, Job, Recorded, Room
from tinyjobs.core.trouble import Backoff, is_transient
from tinyjobs.executors.call import Call, Ending
from tinyjobs.executors.coroutine import CoroutineExecutor
from tinyjobs.executors.thread import ThreadExecutor
from tinyjobs.runtime.attempt import Conclusion, conclude, hand_back, prepare
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import HookRunner
from tinyjobs.runtime.idle import Idler
from tinyjobs.runtime.leases import LeaseKeeper
from tinyjobs.runtime.recorder import Recorder
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.shutdown import Shutdown
from tinyjobs.runtime.signals import StopSignals
from tinyjobs.runtime.upkeep import Upkeep

logger = logging.getLogger("tinyjobs.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a worker did. `left_delayed` counts jobs that wait for their time; `forced`: a second signal ended it."""

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    left_delayed: int = 0
    forced: bool = False


def make_worker_id() -> str:
    """A fresh identity: host and process for people, and a random part, since both come back after a restart."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass(slots=True)
class _Parts:
    """What exists only while the worker runs, on its loop."""

    loop: asyncio.AbstractEventLoop
    coroutines: CoroutineExecutor
    threads: ThreadExecutor
    hooks: HookRunner
    recorder: Recorder
    keeper: LeaseKeeper
    upkeep: Upkeep
    idler: Idler
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Worker:
    """Runs the jobs of an engine's store. `run` may be called again after it returned."""

    def __init__(self, engine: Engine, settings: WorkerSettings | None = None) -> None:
        self.engine = engine
        self.settings = settings or WorkerSettings()
        self.worker_id = make_worker_id()
        self._parts: _Parts | None = None
        self._stop_asked = threading.Event()
        self._force_asked = threading.Event()
        self._hungry = True
        self._left_some = False
        self._trouble = Backoff()

    def stop(self) -> None:
        """Ask for a clean stop, from any thread. Before `run`, that run returns at once."""
        self._stop_asked.set()
        self._wake()

    def force(self, answered: threading.Event | None = None) -> None:
        """Stop without waiting for coroutines: they are cut and given back. `answered` is set once that began."""
        self._force_asked.set()
        self._stop_asked.set()
        if self._parts is not None:
            self._parts.loop.call_soon_threadsafe(self._cut, answered)

    async def run(self) -> WorkerReport:
        """Work until `stop`, or, with `until_empty`, until nothing is due or running."""
        parts = self._parts = self._start()
        left: int | None = None
        try:
            while not self._stop_asked.is_set():
                left = await self._idle(parts)
                if left is not None:
                    break
                await self._turn(parts)
            await self._wind_down(parts)
        finally:
            await self._dismantle(parts)
            self._parts = None
            self._stop_asked.clear()
        return WorkerReport(
            succeeded=parts.recorder.succeeded,
            failed=parts.recorder.failed,
            retried=parts.recorder.retried,
            left_delayed=left or 0,
            forced=self._force_asked.is_set(),
        )

    # --- the cycle ----------------------------------------------------------------------------------------------

    async def _turn(self, parts: _Parts) -> None:
        """Record what ended and claim what comes next, then start it."""
        group = parts.recorder.take()
        request = self._request(parts)
        if not group and request is None:
            return
        try:
            recorded = await self._write(parts, group, request)
            await parts.recorder.settle(group, recorded)
        except Exception as error:
            parts.recorder.put_back(group, in_doubt=True)
            await self._pause_after(error)
            return
        if self._trouble.succeeded():
            logger.info("the store answers again")
        if recorded.claimed is not None and request is not None:
            self._begin(parts, request, recorded.claimed)

    async def _write(self, parts: _Parts, group: Sequence[Conclusion], request: ClaimRequest | None) -> Recorded:
        outcomes = [conclusion.outcome for conclusion in group]
        return await self.engine.store.record(outcomes, request)

    def _request(self, parts: _Parts) -> ClaimRequest | None:
        """What may be claimed now, if a claim is worth it."""
        if not self._hungry or self._stop_asked.is_set():
            return None
        limit, room = self._capacity(parts)
        if limit == 0:
            return None
        return ClaimRequest(
            worker_id=self.worker_id, limit=limit, lease=self.settings.lease, queues=self.settings.queues, room=room
        )

    def _capacity(self, parts: _Parts) -> tuple[int, Room | None]:
        """How many jobs could be started: as many as the freer kind of slot, within the room of the other kind."""
        free_coroutines, free_threads = max(parts.coroutines.free, 0), max(parts.threads.free, 0)
        thread_names = self.engine.catalogue.thread_names()
        if not thread_names:
            return free_coroutines, None
        coroutine_names = frozenset(self.engine.catalogue.names()) - thread_names
        if not coroutine_names:
            return free_threads, None
        if free_coroutines >= free_threads:
            return free_coroutines, Room(thread_names, free_threads)
        return free_threads, Room(coroutine_names, free_coroutines)

    def _begin(self, parts: _Parts, request: ClaimRequest, claimed: Claimed) -> None:
        """Start the claimed jobs. What cannot start here after all goes back without using an attempt."""
        parts.idler.next_due = claimed.next_due
        taken = len(claimed.jobs)
        # A room that was filled may have kept the claim from jobs behind it.
        self._left_some = request.room is not None and taken >= request.room.free
        self._hungry = taken >= request.limit or (taken > 0 and self._left_some)
        if taken:
            parts.idler.found_work()
        for job in claimed.jobs:
            call = self._prepare(job)
            if isinstance(call, Conclusion):
                parts.recorder.add(call)
            elif call.spec.is_coroutine and parts.coroutines.free > 0:
                self._announce(parts, job)
                parts.coroutines.start(call)
            elif not call.spec.is_coroutine and parts.threads.free > 0:
                self._announce(parts, job)
                parts.threads.start(call)
            else:
                parts.recorder.add(hand_back(self.engine, job))

    def _prepare(self, job: Job) -> Call | Conclusion:
        try:
            return prepare(self.engine, job)
        except Exception:
            logger.exception("job %s (%s) cannot be prepared; it goes back to the queue", job.id, job.task)
            return hand_back(self.engine, job)

    def _announce(self, parts: _Parts, job: Job) -> None:
        if self.engine.hooks.on_start:
            parts.hooks.add(self.engine.hooks.on_start, job)

    def _ended(self, endings: Sequence[Ending]) -> None:
        """Called on the loop by the executors: outcomes to record, and slots that are free again."""
        parts = self._parts
        if parts is None:
            return
        for ending in endings:
            parts.recorder.add(conclude(self.engine, ending))
        if self._is_backlogged(parts):
            self._hungry = True
        parts.idler.wake()

    def _is_backlogged(self, parts: _Parts) -> bool:
        # With no free slot before, or a kind of slot that was full, there may be jobs the last claim had to leave.
        return self._left_some or parts.coroutines.free <= 1 or parts.threads.free <= 1

    async def _idle(self, parts: _Parts) -> int | None:
        """Wait until there is something to record or claim. A number: the store is empty and that many wait."""
        can_claim = self._capacity(parts)[0] > 0
        if len(parts.recorder) or (self._hungry and can_claim):
            return None
        if await parts.idler.wait(can_claim=can_claim):
            self._hungry = True
        if self.settings.until_empty and not self._hungry and not len(parts.recorder) and not self._held():
            return await self._left_if_empty()
        return None

    async def _left_if_empty(self) -> int | None:
        stats = await self.engine.store.stats()
        served = [queue for queue in stats.queues if not self.settings.queues or queue.name in self.settings.queues]
        if any(queue.ready or queue.running for queue in served):
            return None
        return sum(queue.delayed for queue in served)

    # --- beginning and end --------------------------------------------------------------------------------------

    def _start(self) -> _Parts:
        loop = asyncio.get_running_loop()
        engine, settings = self.engine, self.settings
        hooks = HookRunner()
        monotonic = engine.clock.monotonic
        parts = _Parts(
            loop=loop,
            coroutines=CoroutineExecutor(settings.async_concurrency, self._ended, monotonic),
            threads=ThreadExecutor(settings.concurrency, self._ended, monotonic, loop),
            hooks=hooks,
            recorder=Recorder(engine, hooks),
            keeper=LeaseKeeper(engine, settings, loop, self._held, self._running),
            upkeep=Upkeep(engine, settings.reap_interval, hooks),
            idler=Idler(engine, settings),
        )
        self._hungry = True
        parts.keeper.start()
        parts.tasks = [loop.create_task(parts.upkeep.run()), loop.create_task(parts.idler.listen())]
        return parts

    async def _wind_down(self, parts: _Parts) -> None:
        await Shutdown(self, parts.coroutines, parts.threads, parts.recorder, parts.idler).run()

    async def _dismantle(self, parts: _Parts) -> None:
        for task in parts.tasks:
            task.cancel()
        await asyncio.gather(*parts.tasks, return_exceptions=True)
        parts.keeper.stop()
        parts.threads.close()
        await parts.hooks.close(timeout=self.settings.shutdown_timeout)

    def _held(self) -> list[Held]:
        """The claims whose function runs or whose outcome is not yet recorded. Called from the keeper's thread too."""
        parts = self._parts
        return [] if parts is None else self._running() + parts.recorder.held()

    def _running(self) -> list[Held]:
        """The claims whose function runs. Called from the keeper's thread too."""
        parts = self._parts
        if parts is None:
            return []
        calls = [*parts.coroutines.running(), *parts.threads.running()]
        return [Held(call.job.id, call.job.claims) for call in calls]

    def _wake(self) -> None:
        parts = self._parts
        if parts is not None:
            parts.loop.call_soon_threadsafe(parts.idler.wake)

    def _cut(self, answered: threading.Event | None) -> None:
        if answered is not None:
            answered.set()
        if self._parts is not None:
            self._parts.coroutines.cut()
            self._parts.idler.wake()

    @property
    def is_forced(self) -> bool:
        """Whether a stop without waiting was asked for."""
        return self._force_asked.is_set()

    async def _pause_after(self, error: Exception) -> None:
        self.engine.hooks.report("worker", error)
        if self._trouble.failures == 0:
            expected = is_transient(error)
            level = logging.WARNING if expected else logging.ERROR
            logger.log(level, "the store could not be written, trying again: %s", error, exc_info=not expected)
        delay = self._trouble.failed()
        if self._parts is not None and not self._stop_asked.is_set():
            await self._parts.idler.pause(delay)


def run_worker(engine: Engine, settings: WorkerSettings | None = None) -> WorkerReport:
    """Run a worker on an event loop of its own; on the main thread it owns SIGINT and SIGTERM until it returns."""
    worker = Worker(engine, settings)
    if not worker.settings.handle_signals:
        return asyncio.run(worker.run())
    with StopSignals(worker.stop, worker.force):
        return asyncio.run(worker.run())
