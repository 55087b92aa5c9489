"""How a worker waits: until an outcome, a wake-up from the store, the next delayed job's time, or the next look.

An idle worker looks by a read and never takes the write lock. Wake-ups only make it look sooner, or claim at once where
a claim costs no more than a look; polling, from a few milliseconds up to the `poll` setting and spread by chance, stays
the truth. After a wake-up it begins with short waits again: what came right behind the job that was told need not have
been told of. While the store knows that its wake-ups arrive, the looks of a worker that has nothing to do are further
apart.
"""

import asyncio
import logging
from enum import Enum

from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.core.trouble import Backoff
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.settings import WorkerSettings

logger = logging.getLogger("tinyjobs.worker")

#: The first pause of a worker that found nothing to do; it doubles up to the `poll` setting.
FIRST_POLL = 0.005
# How long one wait for the store's wake-ups lasts: a worker that has become busy stops listening after that long.
_LISTEN = 1.0
# A store that still answers this long after wake-ups were lost has lost nothing else, and a connection that was lost
# alone would be back by then.
_DOUBT = 1.0
# How much rarer looks are while wake-ups are known to arrive, and the seconds beyond which that adds nothing.
_RARER = 4
_RARE = 2.0


class Look(Enum):
    """What a wait ended with."""

    NONE = "woken without a look"
    NOTHING = "looked, and nothing is due"
    WORK = "there is something to claim, by a look or by what was told"


class Idler:
    """Waits on behalf of one worker, on its loop."""

    def __init__(self, engine: Engine, settings: WorkerSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._event = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_signalled = False
        self._was_told = False
        self._delay = FIRST_POLL
        self._look_at: float | None = None
        self._listening = Backoff(ceiling=1.0)
        # Why wake-ups do not arrive, since when, and after how many outages; None where that is told, or they do.
        self._loss: tuple[Exception, float, int] | None = None
        self._is_loss_told = False
        self.next_due: float | None = None

    def wake(self) -> None:
        """End the wait under way, or the next one, at once. On the loop's thread only."""
        self._event.set()

    def look(self) -> None:
        """End the wait under way, or the next one, with a look at the store. On the loop's thread only."""
        self._signal()

    def found_work(self) -> None:
        """Jobs were claimed: the next wait starts with short polls again."""
        self._delay = FIRST_POLL
        self._look_at = None
        self._is_idle.clear()

    def found_nothing(self) -> None:
        """A look or a claim brought nothing: the next look may come later."""
        self._delay = min(self._delay * 2, self._longest())
        self._look_at = None
        self._is_idle.set()

    async def wait(self, *, can_claim: bool) -> Look:
        """Wait for an outcome, a wake-up or the next look. Raises what the store answers to a look.

        A wake-up that comes while nothing can be claimed counts at the next wait that may lead to a claim.
        """
        if can_claim and self._is_signalled:
            self._event.set()
        await self._sleep(self._until_next_look() if can_claim else None)
        self._event.clear()
        if not can_claim or not (self._is_signalled or self._until_next_look() <= 0.0):
            return Look.NONE
        self._is_signalled = False
        was_told, self._was_told = self._was_told, False
        if was_told and self._engine.store.claims_freely():
            return Look.WORK
        return await self._look()

    async def pause(self, seconds: float) -> None:
        """Wait after trouble; a stop ends it at once."""
        await self._sleep(seconds)
        self._event.clear()

    async def listen(self) -> None:
        """Turn the store's wake-ups into looks, until cancelled. Ends quietly for a store that has none."""
        while True:
            # A busy worker claims anyway, and would only be woken by what it writes itself.
            await self._is_idle.wait()
            try:
                was_told = await self._engine.store.wait_for_jobs(_LISTEN, self._settings.queues)
            except UnsupportedCapabilityError:
                return
            except Exception as error:
                await self._pause_after(error)
                continue
            # One told of in this process says nothing of the others'.
            if (not was_told or self._engine.store.can_wake()) and self._listening.succeeded():
                self._tell_return()
            if was_told:
                self._delay = FIRST_POLL
                self._was_told = True
                self._signal()

    async def _pause_after(self, error: Exception) -> None:
        self._engine.hooks.report("listener", error)
        outage = self._engine.outage
        if not self._is_loss_told:
            before = -1 if outage.is_under_way else outage.count
            since = self._loss[1] if self._loss and self._loss[2] == before else asyncio.get_running_loop().time()
            self._loss = error, since, before
        if self._listening.failures == 0:
            # The next look may have been put off in the belief that it would be woken.
            self._signal()
        await self._engine.clock.sleep(self._listening.failed())

    def _tell_loss(self) -> None:
        """Say that wake-ups do not arrive, unless the whole store is out of reach, which is told of elsewhere."""
        if self._loss is not None and self._loss[2] == self._engine.outage.count:
            self._is_loss_told = True
            logger.warning("wake-ups do not arrive, so the worker only polls for now: %s", self._loss[0])
            self._loss = None

    def _look_at_loss(self, since: float) -> None:
        if self._engine.store.can_wake():
            # The wait under way would find that out only at its end, and by then they may be lost again.
            self._listening.succeeded()
            self._tell_return()
        elif asyncio.get_running_loop().time() - since > _DOUBT:
            self._tell_loss()

    def _tell_return(self) -> None:
        """One line for a loss that is over before it was worth a warning, as that of a single connection."""
        if self._is_loss_told:
            logger.info("wake-ups arrive again")
        elif self._loss is not None and self._loss[2] == self._engine.outage.count:
            logger.info("wake-ups were interrupted and arrive again: %s", self._loss[0])
        self._loss, self._is_loss_told = None, False

    def _signal(self) -> None:
        """End the wait under way with a look."""
        self._is_signalled = True
        self._event.set()

    async def _look(self) -> Look:
        self._look_at = None
        ready, self.next_due = await self._engine.store.next_due(self._settings.queues)
        if self._loss is not None:
            self._look_at_loss(self._loss[1])
        if ready or self._seconds_to_next_due() == 0.0:
            return Look.WORK
        self.found_nothing()
        return Look.NOTHING

    def _until_next_look(self) -> float:
        """Counted from the last look, so that outcomes which end a wait do not put the next look off."""
        now = asyncio.get_running_loop().time()
        if self._look_at is None:
            self._look_at = now + self._delay * (0.75 + self._engine.random.random() / 2)
        return max(min(self._look_at - now, self._seconds_to_next_due(), self._longest()), 0.0)

    def _longest(self) -> float:
        """The longest wait between two looks as things stand."""
        poll = self._settings.poll
        return max(poll, min(poll * _RARER, _RARE)) if self._engine.store.can_wake() else poll

    def _seconds_to_next_due(self) -> float:
        if self.next_due is None:
            return self._longest()
        return max(self.next_due - self._engine.clock.now(), 0.0)

    async def _sleep(self, seconds: float | None) -> None:
        if self._event.is_set():
            return
        if seconds is None:
            await self._event.wait()
            return
        # A look is due then: told apart from a wake-up by an outcome, which needs no look.
        timer = asyncio.get_running_loop().call_later(seconds, self._signal)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
