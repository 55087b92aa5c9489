"""Looking at schedules and steering them, each verb for threads and for event loops. A schedule goes by its name."""

from collections.abc import Mapping, Sequence
from typing import Any

from tinyjobs.app.access import StoreAccess, Verb
from tinyjobs.app.results import JobHandle, Source
from tinyjobs.app.timetable import AppTimetable
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.job import Job, ScheduleState
from tinyjobs.runtime import schedules


class Scheduling:
    """The part of an app that is about schedules."""

    _access: StoreAccess
    _source: Source
    _codecs: CodecRegistry
    _timetable: AppTimetable

    def schedules(self) -> list[ScheduleState]:
        """Every schedule that the store keeps, by name. One that is declared is there once a scheduler has run."""
        return self._access.run("await app.aschedules()", lambda store: store.schedules())

    async def aschedules(self) -> list[ScheduleState]:
        """The same from an event loop."""
        return await self._access.arun(lambda store: store.schedules())

    def save_schedule(
        self,
        name: str,
        *,
        task: str,
        cron: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timezone: str | None = None,
        misfire: str = "skip",
        overlap: bool = False,
    ) -> ScheduleState:
        """Keep a schedule as data, or change one that is: from then on it fires, restarts and deploys included.

        `task` is a registered task's name. Raises `ConfigurationError` for what cannot work, and for a name that the
        code declares.
        """
        given = _given(task, cron, args, kwargs, queue, priority, timezone, misfire, overlap)
        return self._access.run("await app.asave_schedule(…)", self._save(name, given))

    async def asave_schedule(
        self,
        name: str,
        *,
        task: str,
        cron: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timezone: str | None = None,
        misfire: str = "skip",
        overlap: bool = False,
    ) -> ScheduleState:
        """The same from an event loop."""
        given = _given(task, cron, args, kwargs, queue, priority, timezone, misfire, overlap)
        return await self._access.arun(self._save(name, given))

    def delete_schedule(self, name: str) -> None:
        """Forget a schedule that is kept as data, or that no code declares any more. Its jobs stay."""
        self._access.run("await app.adelete_schedule(…)", self._delete(name))

    async def adelete_schedule(self, name: str) -> None:
        """The same from an event loop."""
        await self._access.arun(self._delete(name))

    def pause_schedule(self, name: str) -> ScheduleState:
        """Have a schedule fire no more until it is resumed, whoever restarts meanwhile."""
        return self._access.run("await app.apause_schedule(…)", self._pause(name))

    async def apause_schedule(self, name: str) -> ScheduleState:
        """The same from an event loop."""
        return await self._access.arun(self._pause(name))

    def resume_schedule(self, name: str) -> ScheduleState:
        """Have a paused schedule fire again, from its next time on."""
        return self._access.run("await app.aresume_schedule(…)", self._resume(name))

    async def aresume_schedule(self, name: str) -> ScheduleState:
        """The same from an event loop."""
        return await self._access.arun(self._resume(name))

    def run_schedule(self, name: str) -> JobHandle:
        """Make a job of the schedule now; its own next time stays. Without overlap an active job is the answer."""
        return self._source.handle(self._access.run("await app.arun_schedule(…)", self._run(name)))

    async def arun_schedule(self, name: str) -> JobHandle:
        """The same from an event loop."""
        return self._source.handle(await self._access.arun(self._run(name)))

    def _save(self, name: str, given: Mapping[str, Any]) -> Verb[ScheduleState]:
        return lambda store: schedules.save(store, self._timetable, name, given, f"app.save_schedule({name!r:.300})")

    def _delete(self, name: str) -> Verb[None]:
        return lambda store: schedules.delete(store, self._timetable, _name(name))

    def _pause(self, name: str) -> Verb[ScheduleState]:
        return lambda store: schedules.pause(store, self._timetable, _name(name))

    def _resume(self, name: str) -> Verb[ScheduleState]:
        return lambda store: schedules.resume(store, self._timetable, _name(name))

    def _run(self, name: str) -> Verb[Job]:
        return lambda store: schedules.run_now(store, self._timetable, self._codecs, _name(name))


def _given(
    task: str,
    cron: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    queue: str | None,
    priority: int | None,
    timezone: str | None,
    misfire: str,
    overlap: bool,
) -> dict[str, Any]:
    return {
        "task": task,
        "cron": cron,
        "args": args,
        "kwargs": kwargs,
        "queue": queue,
        "priority": priority,
        "timezone": timezone,
        "misfire": misfire,
        "overlap": overlap,
    }


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ConfigurationError(f"A schedule goes by its name, not by {name!r:.100}.")
    return name
