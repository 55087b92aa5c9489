"""What a simulated worker has in place of parts that a seed cannot decide: a keeper without a thread, ids by number."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from unittest import mock

from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.ids import IdSource
from tinyjobs.core.job import Job
from tinyjobs.core.schedules import Schedule
from tinyjobs.core.sight import out_of_sight
from tinyjobs.runtime.leases import LeaseKeeper


class LoopKeeper(LeaseKeeper):
    """The keeper of leases as a task of its process, with the same passes at the same times."""

    _task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        self._task = out_of_sight(self._loop.create_task(self._passes()))

    def stop(self) -> None:
        super().stop()
        if self._task is not None:
            self._task.cancel()

    async def _passes(self) -> None:
        pause = self._settings.lease / 3
        while not self._stopped.is_set():
            await asyncio.sleep(pause)
            pause = self._pass()


@contextmanager
def simulated(dice: Random) -> Iterator[None]:
    """For this block workers are made of such parts."""
    with (
        mock.patch("tinyjobs.runtime.worker.LeaseKeeper", LoopKeeper),
        mock.patch("tinyjobs.runtime.scheduler.IdSource", lambda: IdSource(dice.getrandbits)),
    ):
        yield


class Timetable:
    """The schedules of a world; see `tinyjobs.core.schedules.Timetable`."""

    default_zone = "UTC"
    unimported: dict[str, BaseException] = {}

    def __init__(self, schedules: dict[str, Schedule], ids: "Ids") -> None:
        self._schedules = schedules
        self._ids = ids
        self._codec = CodecRegistry().get("json")

    def declared(self) -> dict[str, Schedule]:
        return self._schedules

    def problems(self) -> list[str]:
        return []

    def job(self, schedule: Schedule) -> Job:
        payload = self._codec.encode_call(schedule.args, dict(schedule.kwargs))
        return Job(id=self._ids.next(), task=schedule.task, payload=payload, max_attempts=4)


class Ids:
    """Job ids by number, in the form that stores know."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def next(self) -> str:
        number = next(self._numbers)
        return f"{number:08x}-0000-7000-8000-{number:012x}"
