"""Run what is due right here, without a worker: for tests, scripts and eager calls.

Synchronous: the store's inline twin, plain functions in the calling thread, coroutines by whatever the caller hands
in. It makes no loop and no thread of its own, but for a function with a timeout, which cannot be timed out in the
thread that waits for it. One job at a time, in queue order, decided by the same code as under a worker.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from tinyjobs.core.context import running_job
from tinyjobs.core.errors import JobTimeout, UnknownTaskError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held, Job, Recorded
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import Outcome, has_expired, has_landed
from tinyjobs.core.trouble import Backoff, is_transient
from tinyjobs.executors.call import Call, End, Ending
from tinyjobs.executors.thread import run_call
from tinyjobs.runtime.attempt import Conclusion, conclude, hand_back, prepare, refused
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import tell_now
from tinyjobs.runtime.identity import make_worker_id

logger = logging.getLogger("tinyjobs.worker")

#: A drain's job is leased for this long and the lease renewed at a third of it by `LeaseRenewal`.
LEASE = 60.0
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
    """Runs due jobs of an engine one after another. `keeps_lease` False: the caller's transaction hides the jobs."""

    def __init__(
        self,
        engine: Engine,
        *,
        run_coroutine: RunCoroutine = run_on_own_loop,
        savepoint: Savepoint = nullcontext,
        in_own_thread: bool = True,
        keeps_lease: bool = True,
    ) -> None:
        self._engine = engine
        self._store = engine.store.inline()
        self._run_coroutine = run_coroutine
        self._savepoint = savepoint
        self._in_own_thread = in_own_thread
        self._keeps_lease = keeps_lease
        self._worker_id = make_worker_id()
        self._interrupt: KeyboardInterrupt | None = None

    def run(self, *, queues: Sequence[str] = (), limit: int | None = None) -> int:
        """Run due jobs until none is left, or `limit` were run; how many. What a job enqueues for now runs too.

        Raises `UnknownTaskError` for a job no task here can run, and leaves that job queued.
        """
        done = 0
        with LeaseRenewal(self._engine) as leases:
            while limit is None or done < limit:
                request = ClaimRequest(worker_id=self._worker_id, limit=1, lease=LEASE, queues=tuple(queues))
                claimed = finish(self._store.claim(request)).jobs
                if not claimed:
                    break
                done += not has_expired(claimed[0])
                self._run_claimed(claimed[0], leases)
        return done

    def run_one(self, job_id: str) -> Job | None:
        """Run this one job if it is queued and due; the job as it stands afterwards, or None when it was not."""
        job = finish(self._store.claim_job(job_id, worker_id=self._worker_id, lease=LEASE))
        if job is None:
            return None
        with LeaseRenewal(self._engine) as leases:
            return self._run_claimed(job, leases)

    def _run_claimed(self, job: Job, leases: "LeaseRenewal") -> Job:
        prepared = prepare(self._engine, job)
        if isinstance(prepared, Conclusion):
            if prepared.error is None:
                finish(self._store.record([hand_back(self._engine, job).outcome]))
                raise UnknownTaskError(
                    f"job {job.id} names the task {job.task!r}, which is not registered here; it stays queued"
                )
            return self._record(prepared)
        tell_now(self._engine.hooks.on_start, job, await_=self._run_coroutine)
        with leases.kept(job) if self._keeps_lease else nullcontext():
            try:
                ending = self._call(prepared)
            except BaseException:
                # A real Ctrl-C, not the task's own: the job goes back as if it had not been taken.
                finish(self._store.record([hand_back(self._engine, job).outcome]))
                raise
            job = self._record(conclude(self._engine, ending))
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt
        return job

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

        def run() -> None:
            endings.append(run_call(call, self._engine.clock.monotonic))
            has_ended.set()

        threading.Thread(target=run, name=f"tinyjobs-drain-{call.spec.name}", daemon=True).start()
        # Not by `join`: interrupted once, it takes the thread for ended on Python 3.12.
        try:
            has_ended.wait(min(timeout, threading.TIMEOUT_MAX))
        except KeyboardInterrupt as interrupt:
            self._interrupt = interrupt
            has_ended.wait()
        if endings:
            return endings[0]
        return Ending(call, End.TIMED_OUT, timeout, None, JobTimeout.after(timeout))

    def _call_coroutine(self, call: Call) -> Ending:
        inner = call.spec

        def run(*args: Any, **kwargs: Any) -> Any:
            running_job.set(call.job)
            return self._run_coroutine(_limited(inner.call(*args, **kwargs), inner.options.timeout))

        plain = Call(call.job, replace(inner, call=run, is_coroutine=False), call.args, call.kwargs, call.around)
        ending = self._guarded(plain)
        ending.call = call
        if isinstance(ending.error, JobTimeout):
            ending.end = End.TIMED_OUT
        return ending

    def _record(self, conclusion: Conclusion) -> Job:
        recorded, is_in_doubt = self._write(conclusion.outcome)
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
            tell_now(hooks.on_failure, job, conclusion.error, conclusion.will_retry, await_=self._run_coroutine)
        elif conclusion.outcome.status is JobStatus.SUCCESS:
            tell_now(hooks.on_success, job, conclusion.value, conclusion.seconds, await_=self._run_coroutine)
        return job

    def _write(self, outcome: Outcome) -> tuple[Recorded, bool]:
        """Record, again after trouble that may pass; the answer, and whether an earlier try may have landed."""
        trouble = Backoff(first=FIRST_PAUSE, ceiling=_LONGEST_PAUSE)
        while True:
            try:
                return finish(self._store.record([outcome])), trouble.failures > 0
            except Exception as error:
                # Inside the caller's transaction nothing gets better by waiting: whoever holds the lock waits for it.
                if not self._keeps_lease or not is_transient(error) or trouble.failures >= _TRIES:
                    raise
                if trouble.failures == 0:
                    logger.warning("the outcome of job %s is not recorded yet, trying again: %s", outcome.job_id, error)
                threading.Event().wait(trouble.failed())


class LeaseRenewal:
    """Renews the lease of the job that runs, from one thread for a whole drain, started with its first job."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: Held | None = None
        self._stopped = threading.Event()
        self._is_started = False
        self._trouble = Backoff(first=LEASE / 60, ceiling=LEASE / 12)

    def __enter__(self) -> "LeaseRenewal":
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped.set()

    @contextmanager
    def kept(self, job: Job) -> Generator[None]:
        """Keep this job's lease during the block."""
        self._held = Held(job.id, job.claims)
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name="tinyjobs-drain-lease", daemon=True).start()
        try:
            yield
        finally:
            self._held = None

    def _run(self) -> None:
        pause = LEASE / 3
        while not self._stopped.wait(pause):
            pause = self._pass()

    def _pass(self) -> float:
        held = self._held
        try:
            if held is not None:
                finish(self._engine.store.inline().heartbeat([held], LEASE))
        except Exception as error:
            # Without a renewal the job would run a second time, beside this run of it.
            self._engine.hooks.report("leases", error)
            if self._trouble.failures == 0 and held is not None:
                logger.warning("the lease of job %s is not renewed, trying again: %s", held.job_id, error)
            return self._trouble.failed()
        self._trouble.succeeded()
        return LEASE / 3


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
