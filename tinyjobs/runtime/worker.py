"""The worker: claim, execute, record, repeat.

The only thing that touches both a store and the executors. A worker claims only into free slots, so claiming is
starting. One write is in flight at a time: it records what has ended and claims what comes next, in one transaction,
while the outcomes that end meanwhile collect for the next.
"""

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence

from tinyjobs.core.job import Claimed, ClaimRequest, Held, Job, Recorded, Room
from tinyjobs.core.logs import facts_of
from tinyjobs.core.sight import out_of_sight
from tinyjobs.core.trouble import Backoff, is_final, log_failure
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.executors.call import Ending
from tinyjobs.executors.coroutine import CoroutineExecutor
from tinyjobs.executors.thread import ThreadExecutor
from tinyjobs.runtime.attempt import Conclusion, conclude, hand_back, prepare
from tinyjobs.runtime.beating import Beating, describe
from tinyjobs.runtime.emptiness import Emptiness
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import LEAST_FOR_HOOKS, HookRunner
from tinyjobs.runtime.identity import make_worker_id
from tinyjobs.runtime.idle import Idler, Look
from tinyjobs.runtime.leases import LeaseKeeper
from tinyjobs.runtime.lookahead import Lookahead
from tinyjobs.runtime.parts import Parts, WorkerReport
from tinyjobs.runtime.recorder import Recorder
from tinyjobs.runtime.scheduler import scheduler_beside
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.shutdown import LEAST_TIMEOUT, Shutdown
from tinyjobs.runtime.slots import capacity
from tinyjobs.runtime.stop import Stop
from tinyjobs.runtime.sweeping import ResultSweeper, Sweeper, Tidier
from tinyjobs.runtime.unknown import UnknownTasks
from tinyjobs.runtime.upkeep import Upkeep

__all__ = ["Worker", "WorkerReport"]

logger = logging.getLogger("tinyjobs.worker")


class Worker:
    """Runs the jobs of an engine's store. `run` may be called again after it returned."""

    def __init__(self, engine: Engine, settings: WorkerSettings | None = None) -> None:
        self.engine = engine
        self.settings = settings or WorkerSettings()
        self.worker_id = make_worker_id()
        #: Whether the event loop serves this worker alone; set by whoever runs it on a loop of its own.
        self.owns_loop = False
        #: Called on the loop once a run has begun. What keeps it from beginning is raised instead.
        self.began: Callable[[], object] = lambda: None
        self._parts: Parts | None = None
        #: What ends this run, since no later pass could do better.
        self._final: Exception | None = None
        self._stop = Stop(engine.clock.monotonic)
        self._hungry, self._left_some = True, False
        self._lookahead = Lookahead(engine.clock.monotonic)
        # By what cannot be done with the store: each kind is told of once when it begins and once when it is over.
        self._troubles: defaultdict[str, Backoff] = defaultdict(Backoff)

    def stop(self) -> None:
        """Ask for a clean stop, from any thread. Before `run`, that run returns at once."""
        self._stop.ask()
        self._call_on_loop(self._hasten)

    def force(self, answered: threading.Event | None = None) -> None:
        """Stop without waiting for coroutines: they are cut and given back. `answered` is set once that began."""
        self._stop.force()
        self._call_on_loop(self._hasten)
        self._call_on_loop(self._cut, answered)

    async def run(self) -> WorkerReport:
        """Work until `stop`, or, with `until_empty`, until nothing is due or running and every hook has been told.

        Cancelling it stops the worker by force: what can be given back is, then the cancellation goes on.
        """
        if self._parts is not None:
            raise RuntimeError("This worker is running already; make another one to run beside it.")
        parts = self._parts = self._start()
        self.began()
        cycle = out_of_sight(parts.loop.create_task(self._cycle(parts)))
        try:
            try:
                left = await asyncio.shield(cycle)
            except asyncio.CancelledError:
                self.force()
                await cycle
                raise
            if self._final is not None:
                raise self._final
            return parts.report(left, forced=self._stop.is_forced)
        finally:
            self._parts, self._final = None, None
            self._stop.clear()

    # --- the cycle ----------------------------------------------------------------------------------------------

    async def _cycle(self, parts: Parts) -> int | None:
        """Pass after pass; then the end. A pass that fails is told of and tried again, whatever it was."""
        left: int | None = None
        try:
            while not self._stop.is_asked and left is None:
                try:
                    left = await self._pass(parts)
                except Exception as error:
                    await self._pause_after(parts, "worked on", error)
                else:
                    self._note_answer("worked on")
            await self._wind_down(parts)
        finally:
            await self._dismantle(parts)
        return left

    async def _pass(self, parts: Parts) -> int | None:
        """Wait until there is something to do, and do it. A number: the store is empty, and that many wait."""
        can_claim = self._capacity(parts)[0] > 0
        if not len(parts.recorder) and not (self._hungry and can_claim):
            try:
                left = await self._wait(parts, can_claim)
            except Exception as error:
                await self._pause_after(parts, "read", error)
                return None
            if left is not None:
                return left
        await self._turn(parts)
        return None

    async def _wait(self, parts: Parts, can_claim: bool) -> int | None:
        left = None
        seen = await parts.idler.wait(can_claim=can_claim)
        if seen is Look.WORK:
            self._hungry = True
        elif seen is Look.NOTHING and parts.emptiness is not None and not len(parts.recorder) and not self._held():
            if not parts.emptiness.is_near():
                return None
            left = await parts.emptiness.left()
        if seen is not Look.NONE:
            self._note_answer("read")
        return left

    async def _turn(self, parts: Parts) -> None:
        """Record what ended and claim what comes next, then start it."""
        group = parts.recorder.take()
        request = self._request(parts)
        if not group and request is None:
            return
        try:
            recorded = await self._write(parts, group, request)
        except Exception as error:
            parts.recorder.put_back(group)
            await self._pause_after(parts, "written", error)
            return
        self._note_answer("written", "read")
        try:
            await parts.recorder.settle(group, recorded)
        finally:
            if recorded.claimed is not None and request is not None:
                self._begin(parts, request, recorded.claimed)

    async def _write(self, parts: Parts, group: Sequence[Conclusion], request: ClaimRequest | None) -> Recorded:
        outcomes = [conclusion.outcome for conclusion in group]
        if self.owns_loop and parts.coroutines.is_idle:
            # Nobody else waits on this loop, so the write may block it and save two changes of thread.
            recorded = self.engine.store.record_now(outcomes, request)
            if recorded is not None:
                await self.engine.clock.sleep(0)
                return recorded
        return await self.engine.store.record(outcomes, request)

    def _request(self, parts: Parts) -> ClaimRequest | None:
        """What may be claimed now, if a claim is worth it."""
        if not self._hungry or self._stop.is_asked:
            return None
        limit, room = self._capacity(parts)
        if limit == 0:
            return None
        limit, room = self._lookahead.bound(limit, room)
        return ClaimRequest(
            worker_id=self.worker_id, limit=limit, lease=self.settings.lease, queues=self.settings.queues, room=room
        )

    def _capacity(self, parts: Parts) -> tuple[int, Room | None]:
        return capacity(
            self.engine.catalogue,
            coroutines=parts.coroutines.free,
            threads=parts.threads.free,
            unconfirmed=len(parts.recorder) + parts.hooks.excess,
            slots=self.settings.async_concurrency + self.settings.concurrency,
        )

    def _begin(self, parts: Parts, request: ClaimRequest, claimed: Claimed) -> None:
        """Start the claimed jobs. What cannot start here after all goes back without using an attempt."""
        parts.idler.next_due = claimed.next_due
        taken = len(claimed.jobs)
        found_only_bounded = self._lookahead.learn(request, claimed)
        # A claim that was filled, or its room, may have been kept from jobs behind those it took.
        self._left_some = taken >= (request.limit if request.room is None else request.room.free)
        self._hungry = taken >= request.limit or (taken > 0 and self._left_some and not found_only_bounded)
        if taken:
            parts.idler.found_work()
        else:
            parts.idler.found_nothing()
        for job in claimed.jobs:
            try:
                self._begin_one(parts, job)
            except Exception:
                text = "job %s (%s) cannot be started; it goes back to the queue"
                logger.exception(text, job.id, job.task, extra=facts_of(job))
                parts.recorder.add(hand_back(self.engine, job))
        parts.coroutines.begin(lambda: self._stop.is_forced)
        parts.unknown.tell()
        if not self._lookahead.is_worth_it(self._capacity(parts)[1]):
            self._hungry = False

    def _begin_one(self, parts: Parts, job: Job) -> None:
        call = hand_back(self.engine, job) if self._stop.is_forced else prepare(self.engine, job)
        if isinstance(call, Conclusion):
            if call.unknown_for is not None:
                parts.unknown.note(job, call.unknown_for)
            parts.recorder.add(call)
        elif call.spec.is_coroutine and parts.coroutines.free > 0:
            self._announce(parts, job)
            parts.coroutines.start(call)
        elif not call.spec.is_coroutine and parts.threads.free > 0:
            self._announce(parts, job)
            parts.threads.start(call)
        else:
            parts.recorder.add(hand_back(self.engine, job))

    def _announce(self, parts: Parts, job: Job) -> None:
        self.engine.hooks.began(job)
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

    def _is_backlogged(self, parts: Parts) -> bool:
        # With no free slot before, or a kind of slot that was full, there may be jobs the last claim had to leave.
        return self._left_some or parts.coroutines.free <= 1 or parts.threads.free <= 1

    # --- beginning and end --------------------------------------------------------------------------------------

    def _start(self) -> Parts:
        loop = asyncio.get_running_loop()
        engine, settings = self.engine, self.settings
        hooks = HookRunner(self.worker_id)
        upkeep, idler = Upkeep(engine, settings, hooks, self._held), Idler(engine, settings)
        monotonic = engine.clock.monotonic
        parts = Parts(
            loop=loop,
            coroutines=CoroutineExecutor(settings.async_concurrency, self._ended, monotonic),
            threads=ThreadExecutor(settings.concurrency, self._ended, monotonic, loop),
            hooks=hooks,
            recorder=Recorder(engine, hooks),
            keeper=LeaseKeeper(engine, settings, loop, self._held, self._running, self._jobs),
            upkeep=upkeep,
            idler=idler,
            emptiness=Emptiness(engine, settings, hooks, upkeep, idler) if settings.until_empty else None,
            unknown=UnknownTasks(monotonic),
            beating=Beating(engine, self._described),
            scheduler=scheduler_beside(engine, settings, hooks),
        )
        self._hungry, self._left_some = True, False
        hooks.caught_up = parts.idler.wake
        parts.keeper.start()
        sweepers = (Sweeper(engine), ResultSweeper(engine), Tidier(engine))
        loops = [parts.upkeep.run, parts.idler.listen, *(sweeper.run for sweeper in sweepers)]
        if parts.scheduler is not None:
            loops.append(parts.scheduler.run)
        parts.beating.start()
        parts.tasks = [out_of_sight(loop.create_task(run())) for run in loops]
        return parts

    async def _wind_down(self, parts: Parts) -> None:
        parts.is_ending = True
        for task in parts.tasks:
            task.cancel()
        await Shutdown(
            self.engine,
            self._stop,
            self.settings.shutdown_timeout,
            parts.coroutines,
            parts.threads,
            parts.recorder,
            parts.idler,
        ).run()

    async def _dismantle(self, parts: Parts) -> None:
        for task in parts.tasks:
            task.cancel()
        await asyncio.gather(*parts.tasks, return_exceptions=True)
        await parts.beating.end()
        self.engine.store.hurry(None)
        parts.keeper.stop()
        parts.threads.close()
        for job in parts.running():
            self.engine.hooks.ended(job)  # left behind, so nothing will tell of its end
        await parts.hooks.close(timeout=self._left_for_hooks(parts))
        await self.engine.hooks.reported(LEAST_FOR_HOOKS)

    def _left_for_hooks(self, parts: Parts) -> float:
        if parts.emptiness is not None:
            parts.emptiness.close()
            if parts.emptiness.has_given_up:
                return LEAST_FOR_HOOKS
        left = self._stop.asked_at + self.settings.shutdown_timeout - self.engine.clock.monotonic()
        return max(left, LEAST_FOR_HOOKS)

    def _described(self) -> WorkerSeen:
        scheduler = None if self._parts is None else self._parts.scheduler
        return describe(
            self.worker_id,
            queues=self.settings.queues,
            threads=self.settings.concurrency,
            coroutines=self.settings.async_concurrency,
            running=len(self._running()),
            is_stopping=self._stop.is_asked,
            scheduled_at=None if scheduler is None else scheduler.passed_at,
        )

    def _held(self) -> list[Held]:
        """The claims whose function runs or whose outcome is not yet recorded. Called from the keeper's thread too."""
        parts = self._parts
        return [] if parts is None else self._running() + parts.recorder.held()

    def _running(self) -> list[Held]:
        """The claims whose function runs. Called from the keeper's thread too."""
        return [Held(job.id, job.claims) for job in self._jobs()]

    def _jobs(self) -> list[Job]:
        """The jobs whose function runs. Called from the keeper's thread too."""
        parts = self._parts
        return [] if parts is None else parts.running()

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        parts = self._parts
        if parts is None:
            return
        try:
            parts.loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop has ended since, and the worker with it.
            return

    def _hasten(self) -> None:
        """A stop was asked for: end the wait under way, and do not wait for the store longer than the stop may take."""
        if self._parts is None:
            return
        if not self._parts.is_ending:
            self.engine.store.hurry(self._stop.asked_at + max(self.settings.shutdown_timeout, LEAST_TIMEOUT))
        self._parts.idler.wake()

    def _cut(self, answered: threading.Event | None) -> None:
        if answered is not None:
            answered.set()
        if self._parts is not None:
            self._parts.coroutines.cut()
            self._parts.hooks.hurry()
            self._parts.idler.wake()

    def _note_answer(self, *done: str) -> None:
        failures = self._troubles[done[0]].succeeded()
        if not self.engine.outage.over(*done) and failures:
            logger.info("the store can be %s again", done[0])

    async def _pause_after(self, parts: Parts, done: str, error: Exception) -> None:
        self.engine.hooks.report("worker", error)
        if is_final(error):
            self._final = self._final or error
            self._stop.ask()
            return
        if not self.engine.outage.met(done, error) and self._troubles[done].failures == 0:
            log_failure(logger, error, "the store cannot be %s, trying again: %s", done)
        delay = self._troubles[done].failed()
        if not self._stop.is_asked:
            await parts.idler.pause(delay)
