"""When a worker that is to run until its store is empty has come to its end.

Not before the hooks of all that has ended have been told, since a hook may send jobs. One that does not return holds it
no longer than a stop would. Knows nothing of slots and of outcomes: whoever asks has none left.
"""

import asyncio

from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import LEAST_FOR_HOOKS, HookRunner
from tinyjobs.runtime.idle import Idler
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.upkeep import Upkeep


class Emptiness:
    """Asked after each look that brought nothing; sees to it that there is another look once that may have changed."""

    def __init__(self, engine: Engine, settings: WorkerSettings, hooks: HookRunner, upkeep: Upkeep, idler: Idler):
        self._engine = engine
        self._queues = settings.queues
        self._patience = max(settings.shutdown_timeout, LEAST_FOR_HOOKS)
        self._hooks = hooks
        self._upkeep = upkeep
        self._idler = idler
        self._alarm: asyncio.TimerHandle | None = None
        #: Whether a hook was under way for so long that it is waited for no more.
        self.has_given_up = False
        hooks.told_all = idler.look

    async def left(self) -> int | None:
        """How many jobs wait for their time, where nothing else is left. None: this is not the end yet."""
        added, was_taking = self._hooks.added, self._upkeep.is_taking
        stats = await self._engine.store.stats()
        served = [queue for queue in stats.queues if not self._queues or queue.name in self._queues]
        if any(queue.ready or queue.running for queue in served):
            return None
        if was_taking or self._upkeep.is_taking or self._hooks.added != added:
            return None
        return sum(queue.delayed for queue in served)

    def close(self) -> None:
        """Leave nothing on the loop."""
        if self._alarm is not None:
            self._alarm.cancel()

    def is_near(self) -> bool:
        """Whether the store is worth being asked: no hook is waited for any more."""
        self.close()
        rest = self._patience - self._hooks.seconds_on_this_one if self._hooks.is_busy else None
        self.has_given_up = rest is not None and rest <= 0
        if rest is not None and rest > 0:
            self._alarm = asyncio.get_running_loop().call_later(rest, self._idler.look)
            return False
        return True
