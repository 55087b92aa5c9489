"""Tells the store that a worker is there: at its start, every ten seconds, and that it is gone once it has stopped.

It beats on the worker's own event loop, so one that hangs goes silent, as one does that was killed or stopped. Nothing
is decided by it: leases alone say whose jobs are lost. Knows nothing of jobs.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from tinyjobs.core.sight import out_of_sight
from tinyjobs.core.trouble import Trouble, kind_of
from tinyjobs.core.watching import WorkerSeen
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.upkeep import pass_after_pass
from tinyjobs.version import __version__

logger = logging.getLogger("tinyjobs.worker")

# Spread out by a quarter either way, so that no two are more than ten seconds apart.
_INTERVAL = 8.0
# How long a stop waits for the store to hear of it, in seconds.
_PARTING = 3.0


class Beating:
    """The beats of one run of a worker or scheduler. `describe` says how it stands at that moment, on the loop."""

    def __init__(self, engine: Engine, describe: Callable[[], WorkerSeen]) -> None:
        self._engine = engine
        self._describe = describe
        self._worker_id = ""
        self._started_at: float | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, where the store keeps workers; returns at once."""
        if self._engine.store.capabilities.workers_seen:
            self._task = out_of_sight(asyncio.get_running_loop().create_task(self._run()))

    async def end(self) -> None:
        """Beat no more, and sign off. Returns within three seconds, whatever the store does; it is left in a hurry."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        engine = self._engine
        engine.store.hurry(engine.clock.monotonic() + _PARTING)
        try:
            async with asyncio.timeout(_PARTING):
                # A beat that is under way would bring the worker back after it signed off.
                await asyncio.wait([task])
                if self._worker_id and not engine.outage.is_under_way:
                    await engine.store.sign_off(self._worker_id)
        except Exception as error:
            # An outage has been told of, or is over before anybody would look for this line.
            if kind_of(error) is not Trouble.OUTAGE:
                reason = str(error) or f"the store did not answer within {_PARTING:g} s"
                logger.info("the worker could not sign off, so it stays listed, as silent, for an hour: %s", reason)

    async def _run(self) -> None:
        await pass_after_pass(
            self._engine,
            self._beat,
            _INTERVAL,
            failing="the worker could not be noted down as one that is there, trying again",
            again="the worker is noted down again",
        )

    async def _beat(self) -> None:
        """One beat, which is not cut off in the middle."""
        beat = out_of_sight(asyncio.get_running_loop().create_task(self._tell()))
        try:
            await asyncio.shield(beat)
        except asyncio.CancelledError:
            with suppress(Exception):
                await beat
            raise

    async def _tell(self) -> None:
        store = self._engine.store
        if self._started_at is None:
            self._started_at = await store.present()
        worker = replace(self._describe(), started_at=self._started_at)
        self._worker_id = worker.worker_id
        await store.beat(worker)


def describe(
    worker_id: str,
    *,
    queues: tuple[str, ...] = (),
    threads: int = 0,
    coroutines: int = 0,
    running: int = 0,
    is_stopping: bool = False,
    scheduled_at: float | None = None,
) -> WorkerSeen:
    """What a worker in this process tells of itself, with the process. When it started is added by its `Beating`."""
    return WorkerSeen(
        worker_id=worker_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        started_at=0.0,
        queues=queues,
        threads=threads,
        coroutines=coroutines,
        running=running,
        is_stopping=is_stopping,
        scheduled_at=scheduled_at,
    )
