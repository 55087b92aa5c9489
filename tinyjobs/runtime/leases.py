"""Keeps the leases of running jobs, on a thread of its own with a connection of its own.

Nothing a task does can block it short of holding the interpreter itself: neither a coroutine that blocks the event
loop nor a pool full of busy threads loses its lease. It renews only on behalf of a loop that has answered within
`stall` seconds, so a worker whose loop hangs for good lets go in the end.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence

from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Held
from tinyjobs.core.trouble import Backoff, is_transient
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.settings import WorkerSettings

logger = logging.getLogger("tinyjobs.leases")


class LeaseKeeper:
    """Renews at a third of the lease. `held` is called from the keeper's thread and must answer a fresh sequence."""

    def __init__(
        self,
        engine: Engine,
        settings: WorkerSettings,
        loop: asyncio.AbstractEventLoop,
        held: Callable[[], Sequence[Held]],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._loop = loop
        self._held = held
        self._stopped = threading.Event()
        self._ticked = engine.clock.monotonic()
        self._is_stalled = False
        self._lost: set[Held] = set()
        self._trouble = Backoff(first=min(0.25, settings.lease / 12), ceiling=settings.lease / 6)
        self._thread = threading.Thread(target=self._run, name="tinyjobs-leases", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread at its next moment; returns at once."""
        self._stopped.set()

    def _run(self) -> None:
        pause = self._settings.lease / 3
        while not self._stopped.wait(pause):
            pause = self._pass()

    def _pass(self) -> float:
        """One round; the seconds until the next."""
        self._ask_loop()
        held = [entry for entry in self._held() if entry not in self._lost]
        if not held or not self._loop_answers():
            return self._settings.lease / 3
        try:
            renewed = self._renew(held)
        except Exception as error:
            self._report(error)
            return self._trouble.failed()
        if self._trouble.succeeded():
            logger.info("leases are renewed again")
        self._note_lost(set(held) - set(renewed))
        return self._settings.lease / 3

    def _renew(self, held: Sequence[Held]) -> Collection[Held]:
        try:
            store = self._engine.store.inline()
        except UnsupportedCapabilityError:
            # A store without a synchronous client is asked on the loop: a task that blocks the loop then delays this.
            beat = self._engine.store.heartbeat(held, self._settings.lease)
            return asyncio.run_coroutine_threadsafe(_as_coroutine(beat), self._loop).result(self._settings.lease / 4)
        return finish(_as_coroutine(store.heartbeat(held, self._settings.lease)))

    def _note_lost(self, lost: set[Held]) -> None:
        # One that ended while the renewal was on its way is not lost, only finished.
        still_running = set(self._held())
        for entry in lost & still_running:
            self._lost.add(entry)
            logger.warning(
                "job %s is no longer held by this worker: its lease ran out or it was cancelled; its outcome will be "
                "refused",
                entry.job_id,
                extra={"job_id": entry.job_id},
            )
        self._lost &= still_running

    def _ask_loop(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._tick)
        except RuntimeError:
            self._stopped.set()

    def _tick(self) -> None:
        self._ticked = self._engine.clock.monotonic()

    def _loop_answers(self) -> bool:
        silent = self._engine.clock.monotonic() - self._ticked
        if silent <= self._settings.stall:
            if self._is_stalled:
                self._is_stalled = False
                logger.warning("the event loop answers again; leases are renewed")
            return True
        if not self._is_stalled:
            self._is_stalled = True
            logger.error(
                "the event loop has not answered for %.0f s (--stall); its leases are no longer renewed, so other "
                "workers can take its jobs. A coroutine that blocks belongs in a plain def task.",
                silent,
            )
        return False

    def _report(self, error: Exception) -> None:
        self._engine.hooks.report("leases", error)
        if self._trouble.failures == 0:
            level = logging.WARNING if is_transient(error) else logging.ERROR
            logger.log(level, "leases could not be renewed, trying again: %s", error)


async def _as_coroutine[T](awaitable: Awaitable[T]) -> T:
    return await awaitable
