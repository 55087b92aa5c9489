"""How a worker waits: until an outcome, a wake-up from the store, the next delayed job's time, or the next look.

An idle worker looks by a read and never takes the write lock. Wake-ups only make it look sooner; polling, from a few
milliseconds up to the `poll` setting and spread by chance, stays the truth.
"""

import asyncio
import logging

from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.core.trouble import Backoff, is_transient
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.settings import WorkerSettings

logger = logging.getLogger("tinyjobs.worker")

_FIRST_POLL = 0.005
# How long one wait for the store's wake-ups lasts; it only bounds how late a broken watch is noticed.
_LISTEN = 60.0


class Idler:
    """Waits on behalf of one worker, on its loop."""

    def __init__(self, engine: Engine, settings: WorkerSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._event = asyncio.Event()
        self._is_waiting = asyncio.Event()
        self._is_signalled = False
        self._delay = _FIRST_POLL
        self._trouble = Backoff()
        self.next_due: float | None = None

    def wake(self) -> None:
        """End the wait under way, or the next one, at once. On the loop's thread only."""
        self._event.set()

    def found_work(self) -> None:
        """Jobs were claimed: the next wait starts with short polls again."""
        self._delay = _FIRST_POLL

    async def wait(self, *, can_claim: bool) -> bool:
        """Wait; True when a claim is worth its write, because a job is ready or a delayed one has come due."""
        self._is_waiting.set()
        try:
            await self._sleep(self._until_next_look() if can_claim else None)
        finally:
            self._is_waiting.clear()
        was_woken, self._is_signalled = self._event.is_set() and not self._is_signalled, False
        self._event.clear()
        if was_woken or not can_claim:
            return False
        return await self._look()

    async def pause(self, seconds: float) -> None:
        """Wait after trouble; a stop ends it at once."""
        await self._sleep(seconds)
        self._event.clear()

    async def listen(self) -> None:
        """Turn the store's wake-ups into looks, until cancelled. Ends quietly for a store that has none."""
        while True:
            await self._is_waiting.wait()
            try:
                if await self._engine.store.wait_for_jobs(_LISTEN):
                    self._is_signalled = True
                    self._event.set()
                self._trouble.succeeded()
            except UnsupportedCapabilityError:
                return
            except Exception as error:
                self._engine.hooks.report("listener", error)
                if self._trouble.failures == 0:
                    logger.warning("wake-ups do not arrive, so the worker only polls for now: %s", error)
                await self._engine.clock.sleep(self._trouble.failed())

    async def _look(self) -> bool:
        try:
            ready, self.next_due = await self._engine.store.next_due(self._settings.queues)
        except Exception as error:
            self._engine.hooks.report("worker", error)
            if self._trouble.failures == 0:
                level = logging.WARNING if is_transient(error) else logging.ERROR
                logger.log(level, "the store could not be read, trying again: %s", error)
            await self.pause(self._trouble.failed())
            return False
        if self._trouble.succeeded():
            logger.info("the store can be read again")
        if ready or self._seconds_to_next_due() == 0.0:
            return True
        self._delay = min(self._delay * 2, self._settings.poll)
        return False

    def _until_next_look(self) -> float:
        spread = self._delay * (0.75 + self._engine.random.random() / 2)
        return min(spread, self._seconds_to_next_due(), self._settings.poll)

    def _seconds_to_next_due(self) -> float:
        if self.next_due is None:
            return self._settings.poll
        return max(self.next_due - self._engine.clock.now(), 0.0)

    async def _sleep(self, seconds: float | None) -> None:
        if self._event.is_set():
            return
        if seconds is None:
            await self._event.wait()
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._time_up)
        try:
            await self._event.wait()
        finally:
            timer.cancel()

    def _time_up(self) -> None:
        # A look is due: told apart from a wake-up by an outcome, which needs no look.
        self._is_signalled = True
        self._event.set()
