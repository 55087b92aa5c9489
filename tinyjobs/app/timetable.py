"""The schedules that a program declares on its app: with a task's decorator, and by name in `TinyJobs(schedules=…)`.

What can be checked when something is declared is refused there. Entries by name may come before their tasks, so those
are held against the tasks when somebody asks.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tinyjobs.app.producer import Producer, Recipe
from tinyjobs.app.registry import TaskRegistry
from tinyjobs.app.task import Task
from tinyjobs.core.errors import ConfigurationError, TinyJobsError, UnknownTaskError
from tinyjobs.core.job import Job
from tinyjobs.core.options import JobOptions
from tinyjobs.core.schedules import Rule, Schedule


class AppTimetable:
    """See `Timetable`."""

    def __init__(
        self, registry: TaskRegistry, producer: Producer, entries: Mapping[str, Schedule], default_zone: str
    ) -> None:
        self.default_zone = default_zone
        #: See `Timetable.unimported`. With any, what seems wrong here need not be.
        self.unimported: Mapping[str, BaseException] = {}
        self._registry = registry
        self._producer = producer
        self._entries = entries
        self._of_tasks: dict[str, Schedule] = {}
        self._lock = threading.Lock()
        # What was found out, and how many tasks there were then.
        self._found: tuple[int, Mapping[str, Schedule], Sequence[str]] | None = None

    def of_task(self, task: Task[..., Any], given: Mapping[str, Any]) -> Schedule | None:
        """The schedule that a task's decorator declares, checked; None: it declares none."""
        if all(value is None for value in given.values()):
            return None
        schedule = Schedule(
            name=task.name,
            task=task.name,
            rule=Rule.parse(given, task.source, self.default_zone),
            source=task.source,
        )
        if task.name in self._entries:
            raise ConfigurationError(f"{task.source}: {self._entries[task.name].source} has the name of its schedule.")
        try:
            task.check_call((), {})
        except TypeError as error:
            raise ConfigurationError(
                f"{task.source}: a schedule of the decorator calls it without arguments: {error}. Give it its "
                f"arguments in TinyJobs(schedules={{…}})."
            ) from None
        return schedule

    def add(self, schedule: Schedule) -> None:
        """Note what a registered task declares."""
        with self._lock:
            self._of_tasks[schedule.name] = schedule
            self._found = None

    def declared(self) -> Mapping[str, Schedule]:
        """See `Timetable.declared`."""
        return self._look()[0]

    def problems(self) -> Sequence[str]:
        """See `Timetable.problems`."""
        return self._look()[1]

    def refuse_problems(self) -> None:
        """Raise before anything runs, rather than when one of them is due."""
        if self.problems() and not self.unimported:
            raise ConfigurationError(" ".join(self.problems()))

    def job(self, schedule: Schedule) -> Job:
        """See `Timetable.job`."""
        task = self._registry.tasks.get(schedule.task)
        if task is None:
            raise UnknownTaskError(f"{schedule.source}: there is no task {schedule.task!r} in this program.")
        task.check_call(schedule.args, schedule.kwargs)
        recipe = Recipe(
            task=task.name,
            options=task.options,
            overrides=JobOptions(queue=schedule.queue, priority=schedule.priority),
            check=None,
            source=schedule.source,
            instead="",
        )
        return self._producer.make(recipe, schedule.args, schedule.kwargs)

    def _look(self) -> tuple[Mapping[str, Schedule], Sequence[str]]:
        found, count = self._found, len(self._registry.tasks)
        if found is None or found[0] != count:
            declared, problems = dict(self._of_tasks), []
            for name, schedule in self._entries.items():
                try:
                    self.job(schedule)
                except (TinyJobsError, TypeError) as error:
                    told = str(error)
                    problems.append(told if told.startswith(schedule.source) else f"{schedule.source}: {told}")
                else:
                    declared[name] = schedule
            found = self._found = count, declared, problems
        return found[1], found[2]
