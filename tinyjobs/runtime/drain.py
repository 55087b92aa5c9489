"""Run what is due right here, without a worker: for tests, scripts and eager calls.

Synchronous: the store's inline twin, plain functions in the calling thread, coroutines by whatever the caller hands
in. It makes no loop and no thread of its own, but for a function with a timeout, which cannot be timed out in the
thread that waits for it. One job at a time, in queue order, decided by the same code as under a worker.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from tinyjobs.backends.base import Backend
from tinyjobs.core.context import running_job
from tinyjobs.core.errors import JobTimeout, TinyJobsError, UnknownTaskError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job, Recorded
from tinyjobs.core.logs import facts_of
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import Outcome, has_expired, has_landed
from tinyjobs.core.trouble import Backoff, is_transient
from tinyjobs.executors.call import Call, End, Ending
from tinyjobs.executors.thread import run_call
from tinyjobs.runtime import renewal
from tinyjobs.runtime.attempt import Conclusion, conclude, hand_back, prepare, refused
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import tell_now
from tinyjobs.runtime.identity import make_worker_id

logger = logging.getLogger("tinyjobs.worker")

#: Between two tries to write an outcome that the store could not take at that moment: as long as a lease, in all.
FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_TRIES = 35

type RunCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]
type Savepoint = Callable[[], AbstractContextManager[object]]


def run_on_own_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The default way to run a coroutine task: on an event loop of its own, in this thread."""
    return asyncio.run(coroutine)


class Drain:
    """Runs due jobs of an engine one after another. `keeps_lease` False: the caller's transaction hides the jobs.

    For who makes one for each job, `leases` renews the leases of them all, `worker_id` is a name that no other drain
    has, and `store` the inline twin of the engine's.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        run_coroutine: RunCoroutine = run_on_own_loop,
        savepoint: Savepoint = nullcontext,
        in_own_thread: bool = True,
        keeps_lease: bool = True,
        leases: renewal.LeaseRenewal | None = None,
        worker_id: str | None = None,
        store: Backend | None = None,
    ) -> None:
        self._engine = engine
        self._store = store or engine.store.inline()
        self._run_coroutine = run_coroutine
        self._savepoint = savepoint
        self._in_own_thread = in_own_thread
        self._keeps_lease = keeps_lease
        self.worker_id = worker_id or make_worker_id()
        self._leases = leases
        self._is_stopped = False
        self._is_cut = False
        #: Whether a coroutine was cut short from outside: its job went back to the queue.
        self.was_cut = False
        self._under_way: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._interrupt: BaseException | None = None
        self._latest: Conclusion | None = None

    def stop(self) -> None:
        """Claim nothing more. From any thread."""
        self._is_stopped = True

    def cut(self) -> None:
        """Cancel the coroutine that runs or is about to; its job goes back to the queue. From any thread."""
        self._is_stopped = self._is_cut = True
        if (running := self._under_way) is not None:
            loop, task = running
            with suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(task.cancel)

    def run(self, *, queues: Sequence[str] = (), limit: int | None = None) -> int:
        """Run due jobs until none is left, or `limit` were run; how many. What a job enqueues for now runs too.

        Raises `UnknownTaskError` for a job no task here can run, and leaves that job queued.
        """
        done = 0
        try:
            with self._renewal() as leases:
                while not self._is_stopped and (limit is None or done < limit):
                    request = ClaimRequest(worker_id=self.worker_id, limit=1, lease=renewal.LEASE, queues=tuple(queues))
                    claimed = finish(self._store.claim(request)).jobs
                    if not claimed:
                        break
                    done += not has_expired(claimed[0])
                    self._run_claimed(claimed[0], leases)
        except BaseException as error:
            self._settle_after(error)
            raise
        return done

    def run_one(self, job_id: str) -> Job | None:
        """Run this one job if it is queued and due; the job as it stands afterwards, or None when it was not."""
        try:
            job = finish(self._store.claim_job(job_id, worker_id=self.worker_id, lease=renewal.LEASE))
            if job is None:
                return None
            with self._renewal() as leases:
                return self._run_claimed(job, leases)
        except BaseException as error:
            self._settle_after(error)
            raise

    def _renewal(self) -> AbstractContextManager[renewal.LeaseRenewal]:
        return renewal.LeaseRenewal(self._engine) if self._leases is None else nullcontext(self._leases)

    def _run_claimed(self, job: Job, leases: renewal.LeaseRenewal) -> Job:
        prepared = prepare(self._engine, job)
        if isinstance(prepared, Conclusion):
            if prepared.error is None:
                finish(self._store.record([hand_back(self._engine, job).outcome]))
                raise UnknownTaskError(
                    f"job {job.id} names the task {job.task!r}, which is not registered here; it stays queued"
                )
            return self._record(prepared)
        hooks = self._engine.hooks
        try:
            hooks.began(job)
            self._tell(hooks.on_start, job)
            with leases.kept(job) if self._keeps_lease else nullcontext():
                ending = self._call(prepared)
                self._latest = self._concluded(ending)
                hooks.ended(prepared.job)
                job = self._record(self._latest)
        except BaseException:
            hooks.ended(prepared.job)
            raise
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt
        return job

    def _concluded(self, ending: Ending) -> Conclusion:
        """What becomes of the job; raises what a signal handler raised meanwhile, which is none of the job's.

        A result that cannot be stored is refused each time, by some codec with `SystemExit`; a handler strikes once.
        """
        conclusion = conclude(self._engine, ending)
        struck = conclusion.error
        if struck is None or struck is ending.error or isinstance(struck, Exception):
            return conclusion
        again = conclude(self._engine, ending)
        if type(again.error) is type(struck):
            return again
        self._latest = again
        raise struck

    def _settle_after(self, error: BaseException) -> None:
        """Leave no job claimed when a Ctrl-C, or what a signal handler raised, ends this, wherever it struck.

        What has run is recorded, and anything else goes back as if it had not been taken. The store is asked what
        that is: of a claim that was cut short nobody here knows.
        """
        if isinstance(error, TinyJobsError):
            return
        try:
            for job in self._still_claimed():
                done = self._latest
                if done is None or (done.outcome.job_id, done.outcome.claim) != (job.id, job.claims):
                    done = hand_back(self._engine, job)
                finish(self._store.record([done.outcome]))
        except Exception as trouble:
            logger.warning("what a drain had claimed when it was interrupted waits for its lease to end: %s", trouble)

    def _still_claimed(self) -> list[Job]:
        found: list[Job] = []
        cursor = None
        while True:
            page = finish(self._store.list(status=JobStatus.RUNNING, cursor=cursor))
            found += [job for job in page.jobs if job.worker_id == self.worker_id]
            cursor = page.cursor
            if found or cursor is None:
                return found

    def _call(self, call: Call) -> Ending:
        if call.spec.is_coroutine:
            return self._call_coroutine(call)
        if call.spec.options.timeout is None or not self._in_own_thread:
            return self._guarded(call)
        return self._call_with_timeout(call, call.spec.options.timeout)

    def _guarded(self, call: Call) -> Ending:
        try:
            with self._savepoint():
                ending = run_call(call, self._engine.clock.monotonic)
                if ending.end is End.RAISED:
                    raise _Undo(ending)
        except _Undo as undo:
            ending = undo.ending
        if isinstance(ending.error, KeyboardInterrupt):
            raise ending.error
        return ending

    def _call_with_timeout(self, call: Call, timeout: float) -> Ending:
        """Run a function in a thread of its own, waiting `timeout` seconds for it; later it is left behind.

        A Ctrl-C meanwhile cannot stop it, and given back the job would run twice: it is waited for all the same, its
        outcome recorded, and then the interrupt goes on. A second one is not waited with.
        """
        endings: list[Ending] = []
        has_ended = threading.Event()
        # Taken by the thread as it begins, or by what comes before that: then the thread has nothing to do.
        turn = [call]

        def run() -> None:
            if _taken(turn):
                endings.append(run_call(call, self._engine.clock.monotonic))
                has_ended.set()

        try:
            threading.Thread(target=run, name=f"tinyjobs-drain-{call.spec.name}", daemon=True).start()
            # Not by `join`: interrupted once, it takes the thread for ended on Python 3.12.
            has_ended.wait(min(timeout, threading.TIMEOUT_MAX))
        except BaseException as error:
            if _taken(turn):
                if not isinstance(error, RuntimeError):
                    raise
                # At the end of the interpreter no thread begins any more. Better without its timeout than not at all.
                return self._guarded(call)
            self._interrupt = error
            has_ended.wait()
        if endings:
            return endings[0]
        return Ending(call, End.TIMED_OUT, timeout, None, JobTimeout.after(timeout))

    def _call_coroutine(self, call: Call) -> Ending:
        inner = call.spec

        def run(*args: Any, **kwargs: Any) -> Any:
            running_job.set(call.job)
            return self._run_coroutine(self._watched(partial(inner.call, *args, **kwargs), inner.options.timeout))

        plain = Call(call.job, replace(inner, call=run, is_coroutine=False), call.args, call.kwargs, call.around)
        ending = self._guarded(plain)
        ending.call = call
        if isinstance(ending.error, JobTimeout):
            ending.end = End.TIMED_OUT
        elif isinstance(ending.error, asyncio.CancelledError | futures.CancelledError):
            # Cut before it began, it was not watched.
            self.was_cut = self.was_cut or self._is_cut
            ending.end = End.CUT if self.was_cut else ending.end
        return ending

    async def _watched(self, call: Callable[[], Coroutine[Any, Any, Any]], timeout: float | None) -> Any:
        """The coroutine, cancelled by whoever cuts it; a cancellation of its own making is an error like any other."""
        task = asyncio.current_task()
        if task is None:
            return await _limited(call(), timeout)
        self._under_way = asyncio.get_running_loop(), task
        if self._is_cut:
            task.cancel()
        try:
            return await _limited(call(), timeout)
        except asyncio.CancelledError:
            self.was_cut = task.cancelling() > 0
            raise
        finally:
            self._under_way = None

    def _record(self, conclusion: Conclusion) -> Job:
        recorded, is_in_doubt = self._write(conclusion.job, conclusion.outcome)
        if 0 in recorded.refused:
            if conclusion.is_fallback:
                raise recorded.refused[0]
            return self._record(refused(self._engine, conclusion, recorded.refused[0]))
        job = conclusion.recorded_job()
        if not recorded.applied[0]:
            executions = finish(self._store.executions(job.id)) if is_in_doubt else ()
            if not has_landed(conclusion.outcome, executions):
                return finish(self._store.get(job.id)) or job
        hooks = self._engine.hooks
        if conclusion.error is not None:
            hooks.failed(conclusion.job, conclusion.error, conclusion.will_retry)
            self._tell(hooks.on_failure, job, conclusion.error, conclusion.will_retry)
        elif conclusion.outcome.status is JobStatus.SUCCESS:
            hooks.succeeded(conclusion.job, conclusion.seconds)
            self._tell(hooks.on_success, job, conclusion.value, conclusion.seconds)
        return job

    def _tell(self, hooks: list[Callable[..., object]], *arguments: Any) -> None:
        if hooks:
            tell_now(hooks, *arguments, await_=self._run_coroutine, owner=self.worker_id)

    def _write(self, job: Job, outcome: Outcome) -> tuple[Recorded, bool]:
        """Record, again after trouble that may pass; the answer, and whether an earlier try may have landed."""
        trouble: Backoff | None = None
        while True:
            try:
                return finish(self._store.record([outcome])), trouble is not None
            except Exception as error:
                # Inside the caller's transaction nothing gets better by waiting: whoever holds the lock waits for it.
                if not self._keeps_lease or not is_transient(error):
                    raise
                trouble = trouble or Backoff(first=FIRST_PAUSE, ceiling=_LONGEST_PAUSE)
                if trouble.failures >= _TRIES:
                    raise
                if trouble.failures == 0:
                    text = "the outcome of job %s is not recorded yet, trying again: %s"
                    logger.warning(text, job.id, error, extra=facts_of(job))
                threading.Event().wait(trouble.failed())


def _taken(turn: list[Call]) -> bool:
    """Take what only one can have. By a single call, so that no interrupt comes in between."""
    try:
        turn.pop()
    except IndexError:
        return False
    return True


class _Undo(Exception):
    """Carries a failed ending out of the savepoint, which it rolls back on its way."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


async def _limited(coroutine: Coroutine[Any, Any, Any], timeout: float | None) -> Any:
    if timeout is None:
        return await coroutine
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await coroutine
    except TimeoutError as error:
        if limit.expired():
            raise JobTimeout.after(timeout) from error
        raise


def drain(engine: Engine, *, queues: Sequence[str] = (), limit: int | None = None) -> int:
    """Run what is due, the plain way; see `Drain`."""
    return Drain(engine).run(queues=queues, limit=limit)


def run_one(engine: Engine, job_id: str) -> Job | None:
    """Run one job, the plain way; see `Drain.run_one`."""
    return Drain(engine).run_one(job_id)
