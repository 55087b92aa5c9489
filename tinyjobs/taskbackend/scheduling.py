"""What a project can do to the schedules of an alias: `task_backends["default"].pause_schedule("shop.tasks.report")`.

Through Django's own connection, so a change is part of whatever transaction the caller has open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.tasks.backends.base import BaseTaskBackend

from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job, ScheduleState
from tinyjobs.runtime import schedules
from tinyjobs.taskbackend.results import JobResult
from tinyjobs.taskbackend.shared import Shared

if TYPE_CHECKING:
    from tinyjobs.taskbackend.timetable import DjangoTimetable


class Scheduling(BaseTaskBackend):
    """The part of the task backend that is about schedules. A schedule goes by its name."""

    @property
    def shared(self) -> Shared:
        """See `TinyJobsBackend.shared`."""
        raise NotImplementedError

    def _send(self, job: Job, result: JobResult) -> JobResult:
        """Keep a job that was made, or give back the active one that holds its key."""
        raise NotImplementedError

    def schedules(self) -> list[ScheduleState]:
        """Every schedule that the store keeps, by name. One that is declared is there once a scheduler has run."""
        return finish(self.shared.store.schedules())

    async def aschedules(self) -> list[ScheduleState]:
        """See `schedules`."""
        return await sync_to_async(self.schedules, thread_sensitive=True)()

    def save_schedule(
        self,
        name: str,
        *,
        task: Any,
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

        `task` is a task or its import path. Raises `ConfigurationError` for what cannot work, and for a name that the
        code declares.
        """
        given = {
            "task": getattr(task, "module_path", task),
            "cron": cron,
            "args": args,
            "kwargs": kwargs,
            "queue": queue,
            "priority": priority,
            "timezone": timezone,
            "misfire": misfire,
            "overlap": overlap,
        }
        shared = self.shared
        return finish(schedules.save(shared.store, self._timetable(name), name, given, f"save_schedule({name!r:.300})"))

    async def asave_schedule(self, name: str, **values: Any) -> ScheduleState:
        """See `save_schedule`."""
        return await sync_to_async(self.save_schedule, thread_sensitive=True)(name, **values)

    def delete_schedule(self, name: str) -> None:
        """Forget a schedule that is kept as data, or that no code declares any more. Its jobs stay."""
        timetable = self._timetable(name)
        timetable.unimported = self.shared.catalogue.discover()
        finish(schedules.delete(self.shared.store, timetable, name))

    async def adelete_schedule(self, name: str) -> None:
        """See `delete_schedule`."""
        await sync_to_async(self.delete_schedule, thread_sensitive=True)(name)

    def pause_schedule(self, name: str) -> ScheduleState:
        """Have a schedule fire no more until it is resumed, whoever restarts meanwhile."""
        return finish(schedules.pause(self.shared.store, self._timetable(name), name))

    async def apause_schedule(self, name: str) -> ScheduleState:
        """See `pause_schedule`."""
        return await sync_to_async(self.pause_schedule, thread_sensitive=True)(name)

    def resume_schedule(self, name: str) -> ScheduleState:
        """Have a paused schedule fire again, from its next time on."""
        return finish(schedules.resume(self.shared.store, self._timetable(name), name))

    async def aresume_schedule(self, name: str) -> ScheduleState:
        """See `resume_schedule`."""
        return await sync_to_async(self.resume_schedule, thread_sensitive=True)(name)

    def run_schedule(self, name: str) -> JobResult:
        """Make a job of the schedule now; its own next time stays. Without overlap an active job is the answer."""
        shared = self.shared
        schedule = finish(schedules.read(shared.store, self._timetable(name), shared.codecs, name))
        job, result = shared.timetable.draft(schedule)
        return self._send(replace(job, key=schedule.key or job.key), result)

    async def arun_schedule(self, name: str) -> JobResult:
        """See `run_schedule`."""
        return await sync_to_async(self.run_schedule, thread_sensitive=True)(name)

    def _timetable(self, name: object) -> "DjangoTimetable":
        """What is declared, also by a task of that name whose module nobody has imported here."""
        if not isinstance(name, str):
            raise ConfigurationError(f"A schedule goes by its name, not by {name!r:.100}.")
        if "." in name:
            self.shared.catalogue.find(name)
        return self.shared.timetable
