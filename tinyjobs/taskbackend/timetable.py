"""The schedules of an alias: those of its tasks' decorators, and those that its settings name.

A decorator is checked when it runs. An entry of the settings names a task by its path, so it is held against that when
somebody asks: a system check, a command, a worker that starts.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.tasks.exceptions import InvalidTask

from tinyjobs.core.errors import ConfigurationError, TinyJobsError, UnknownTaskError
from tinyjobs.core.job import Job
from tinyjobs.core.schedules import RULE_OPTIONS, Rule, Schedule
from tinyjobs.core.sentences import say
from tinyjobs.taskbackend.results import JobResult
from tinyjobs.taskbackend.running import TaskCall
from tinyjobs.taskbackend.sending import Draft
from tinyjobs.taskbackend.settings import project_zone
from tinyjobs.taskbackend.shared import Shared
from tinyjobs.taskbackend.task import Task
from tinyjobs.taskbackend.typed import AnyTask


class DjangoTimetable:
    """See `Timetable`. Of tasks it knows those that the catalogue has found."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        #: See `Timetable.unimported`.
        self.unimported: Mapping[str, BaseException] = {}
        # What was found out, and how many tasks were known then.
        self._found: tuple[int, Mapping[str, Schedule], Sequence[str]] | None = None

    @property
    def default_zone(self) -> str:
        """That of the alias, else the project's."""
        return self._shared.settings.timezone or project_zone()

    def declared(self) -> Mapping[str, Schedule]:
        """See `Timetable.declared`."""
        return self._look()[0]

    def problems(self) -> Sequence[str]:
        """See `Timetable.problems`."""
        return self._look()[1]

    def job(self, schedule: Schedule) -> Job:
        """See `Timetable.job`."""
        return self.draft(schedule)[0]

    def draft(self, schedule: Schedule) -> tuple[Job, JobResult]:
        """A job, and the result that sending it would give."""
        try:
            return Draft(self._shared, self._task(schedule)).one(schedule.args, schedule.kwargs)
        except InvalidTask as error:
            raise ConfigurationError(f"{schedule.source}: {error}") from error

    def _task(self, schedule: Schedule) -> AnyTask:
        spec = self._shared.catalogue.find(schedule.task)
        if spec is None or not isinstance(spec.call, TaskCall):
            raise UnknownTaskError(
                say(
                    "%(source)s: there is no task %(task)s in the installed apps.",
                    source=schedule.source,
                    task=repr(schedule.task),
                )
            )
        task = spec.call.task
        changes: dict[str, Any] = {
            "queue_name": schedule.queue,
            "priority": schedule.priority,
            # Another alias may be where it goes by default.
            "backend": None if task.backend == self._shared.settings.alias else self._shared.settings.alias,
        }
        given = {name: value for name, value in changes.items() if value is not None}
        return task.using(**given) if given else task

    def _look(self) -> tuple[Mapping[str, Schedule], Sequence[str]]:
        catalogue, entries = self._shared.catalogue, self._shared.settings.schedules
        found, names = self._found, catalogue.names()
        if found is None or found[0] != len(names):
            for name, schedule in entries.items():
                for path in (schedule.task, name):  # a name may be the path of a task with a schedule of its own
                    catalogue.find(path)
            names = catalogue.names()
            declared, problems = self._of_tasks(names)
            for name, schedule in entries.items():
                problem = self._problem(schedule)
                if problem is None and name in declared:
                    problem = f"{schedule.source} has the name of the schedule in {name}'s own decorator."
                if problem is None:
                    declared[name] = schedule
                else:
                    problems.append(problem)
            found = self._found = len(names), declared, problems
        return found[1], found[2]

    def _of_tasks(self, names: Collection[str]) -> tuple[dict[str, Schedule], list[str]]:
        declared: dict[str, Schedule] = {}
        problems: list[str] = []
        for name in names:
            try:
                schedule = self._of_task(name)
            except ConfigurationError as error:
                problems.append(str(error))
                continue
            if schedule is None:
                continue
            problem = self._problem(schedule)
            if problem is None:
                declared[name] = schedule
            else:
                problems.append(problem)
        return declared, problems

    def _of_task(self, name: str) -> Schedule | None:
        spec = self._shared.catalogue.find(name)
        task = spec.call.task if spec is not None and isinstance(spec.call, TaskCall) else None
        if not isinstance(task, Task) or task.cron is None or task.backend != self._shared.settings.alias:
            return None
        source = f"the task {name}"
        rule = Rule.parse({option: getattr(task, option) for option in RULE_OPTIONS}, source, self.default_zone)
        return Schedule(name=name, task=name, rule=rule, source=source)

    def _problem(self, schedule: Schedule) -> str | None:
        try:
            if not self._shared.home.capabilities.schedules:
                return f"{schedule.source}: {self._shared.settings.where} keeps no schedules."
            self.job(schedule)
        except (TinyJobsError, TypeError) as error:
            told = str(error)
            return told if told.startswith(schedule.source) else f"{schedule.source}: {told}"
        return None
