"""Keeps the leases of running jobs, on a thread of its own with a connection of its own.

Nothing a task does can block it short of holding the interpreter itself: neither a coroutine that blocks the event
loop nor a pool full of busy threads loses its lease. It renews only on behalf of a loop that has answered within
`stall` seconds, so a worker whose loop hangs for good lets go in the end.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence

from tinyjobs.core.errors import AppClosedError, UnsupportedCapabilityError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Held, Job
from tinyjobs.core.logs import facts_of
from tinyjobs.core.trouble import Backoff, log_failure
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.settings import WorkerSettings

logger = logging.getLogger("tinyjobs.leases")


class LeaseKeeper:
    """Renews at a third of the lease.

    `held` answers every claim to renew, `running` those of them whose function has not ended, `jobs` their jobs, for
    the log. All are called from the keeper's thread and must answer a fresh sequence.
    """

    def __init__(
        self,
        engine: Engine,
        settings: WorkerSettings,
        loop: asyncio.AbstractEventLoop,
        held: Callable[[], Sequence[Held]],
        running: Callable[[], Sequence[Held]],
        jobs: Callable[[], Sequence[Job]] = tuple,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._loop = loop
        self._held = held
        self._running = running
        self._jobs = jobs
        self._stopped = threading.Event()
        self._asked_at: float | None = None
        self._is_stalled = False
        self._lost: set[Held] = set()
        self._trouble = Backoff(first=min(0.25, settings.lease / 12), ceiling=min(settings.lease / 6, 2.0))
        self._thread = threading.Thread(target=self._run, name="tinyjobs-leases", daemon=True)

    def start(self) -> None:
        """Begin; returns at once. Raises `AppClosedError` where no thread can be had."""
        try:
            self._thread.start()
        except RuntimeError as error:
            raise AppClosedError(
                "Python starts no more threads, as when the program ends, and a worker needs them; start it before."
            ) from error

    def stop(self) -> None:
        """End the thread at its next moment; returns at once."""
        self._stopped.set()

    def _run(self) -> None:
        pause = self._settings.lease / 3
        while not self._stopped.wait(pause):
            pause = self._pass()

    def _pass(self) -> float:
        """One round; the seconds until the next. Never raises: without its keeper every job here would run twice."""
        try:
            if self._loop_answers():
                self._renew_all()
        except Exception as error:
            if self._stopped.is_set():
                # Whoever stopped the keeper may have closed the store under it.
                return 0.0
            self._report(error)
            return self._trouble.failed()
        return self._settings.lease / 3

    def _renew_all(self) -> None:
        held = [entry for entry in self._held() if entry not in self._lost]
        if not held:
            self._engine.outage.forget("leases")
            return
        renewed = self._renew(held)
        failures = self._trouble.succeeded()
        if not self._engine.outage.over("leases") and failures:
            logger.info("leases are renewed again")
        self._note_lost(set(held) - set(renewed))

    def _renew(self, held: Sequence[Held]) -> Collection[Held]:
        try:
            store = self._engine.store.inline()
        except UnsupportedCapabilityError:
            # A store without a synchronous client is asked on the loop: a task that blocks the loop then delays this.
            beat = self._engine.store.heartbeat(held, self._settings.lease)
            return asyncio.run_coroutine_threadsafe(_as_coroutine(beat), self._loop).result(self._settings.lease / 4)
        return finish(_as_coroutine(store.heartbeat(held, self._settings.lease)))

    def _note_lost(self, lost: set[Held]) -> None:
        # One that has ended meanwhile is not lost: its outcome is on its way, or recorded already.
        still_running = set(self._running())
        self._lost &= still_running
        jobs = {Held(job.id, job.claims): job for job in self._jobs()}
        for entry in lost & still_running:
            self._lost.add(entry)
            logger.warning(
                "job %s is no longer held by this worker: its lease ran out or it was cancelled; its outcome will be "
                "refused",
                entry.job_id,
                extra=facts_of(jobs[entry]) if entry in jobs else {"job_id": entry.job_id},
            )

    def _loop_answers(self) -> bool:
        """Whether the loop has answered the last question, or has still time to; if it has, it is asked again."""
        now = self._engine.clock.monotonic()
        if self._asked_at is None:
            if self._is_stalled:
                self._is_stalled = False
                logger.warning("the event loop answers again; leases are renewed")
            self._asked_at = now
            self._ask_loop()
            return True
        silent = now - self._asked_at
        if silent <= self._settings.stall:
            return True
        if not self._is_stalled:
            self._is_stalled = True
            logger.error(
                "the event loop has not answered for %.0f s (--stall); its leases are no longer renewed, so other "
                "workers can take its jobs. A coroutine that blocks belongs in a plain def task.",
                silent,
            )
        return False

    def _ask_loop(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._answered)
        except RuntimeError:
            # The loop has ended, and the worker with it.
            self._stopped.set()

    def _answered(self) -> None:
        self._asked_at = None

    def _report(self, error: Exception) -> None:
        self._engine.hooks.report("leases", error)
        if not self._engine.outage.met("leases", error) and self._trouble.failures == 0:
            log_failure(logger, error, "leases could not be renewed, trying again: %s")


async def _as_coroutine[T](awaitable: Awaitable[T]) -> T:
    return await awaitable
