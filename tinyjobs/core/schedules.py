"""Schedules as a program declares them: a rule, and the job that it makes. Parsed once, at the door.

Every error names where the schedule stands: a decorator, a path in the settings, a call. This module knows no store and
no clock. What a scheduler needs of a program is its `Timetable`; what a store keeps is a `ScheduleState`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import lru_cache
from typing import Any, Protocol

from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.cron import Cron, zone_of
from tinyjobs.core.errors import ConfigurationError, SerializationError, refuse_unknown
from tinyjobs.core.firing import Misfire
from tinyjobs.core.job import Job, ScheduleState
from tinyjobs.core.options import check_flag, check_priority, check_queue, check_task_name
from tinyjobs.core.sentences import behind, say

#: What a task's decorator takes about its schedule; an entry of `schedules` takes these and those of `_CALL`.
RULE_OPTIONS = ("cron", "timezone", "misfire", "overlap")
_CALL = ("task", "args", "kwargs", "queue", "priority")
ENTRY_OPTIONS = frozenset({*RULE_OPTIONS, *_CALL})

_NO_ZONE = say(
    "it names no timezone, and there is none for schedules that name none: TIME_ZONE in the settings is None. Set "
    "TIME_ZONE, or the option timezone, to a name such as 'Europe/Berlin' or 'UTC'."
)

#: What `source` of a `ScheduleState` says.
CODE, DATA = "code", "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a schedule fires, and what becomes of firings that were missed or that find the last job still active."""

    cron: Cron
    timezone: str
    misfire: Misfire = Misfire.SKIP
    overlap: bool = False

    @property
    def when(self) -> tuple[str, str]:
        """What a store keeps of when it fires: the expression and the zone."""
        return self.cron.text, self.timezone

    @property
    def zone(self) -> tzinfo:
        """The zone of that name."""
        return zone_of(self.timezone)

    @classmethod
    def parse(cls, given: Mapping[str, Any], source: str, default_zone: str) -> "Rule":
        """Check a rule's options; None stands for the default. `ConfigurationError` names `source` and the option."""
        kept = {name: given[name] for name in RULE_OPTIONS if given.get(name) is not None}
        if "cron" not in kept:
            raise ConfigurationError(f"{source}: {_what_is_missing(kept)}")
        overlap = check_flag(kept.get("overlap", False), f"{source}: overlap")
        try:
            timezone = kept.get("timezone", default_zone)
            if timezone == "" and "timezone" not in kept:
                raise ConfigurationError(_NO_ZONE)
            zone_of(timezone)
            misfire = Misfire.parse(kept.get("misfire", Misfire.SKIP))
            cron = parsed(kept["cron"])
        except ConfigurationError as error:
            raise ConfigurationError(behind(source, error)) from None
        if misfire is Misfire.RUN_ALL and not overlap:
            raise ConfigurationError(
                say(
                    "%(source)s: misfire 'run_all' needs overlap=True. Without it the jobs for missed firings would be "
                    "held off by the first of them.",
                    source=source,
                )
            )
        return cls(cron=cron, timezone=timezone, misfire=misfire, overlap=overlap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A rule, and the call it makes a job of. `queue` and `priority`: None leaves those of the task.

    `source` says where it stands, for messages.
    """

    name: str
    task: str
    rule: Rule
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue: str | None = None
    priority: int | None = None
    source: str = ""

    @property
    def key(self) -> str | None:
        """The deduplication key of its jobs, which keeps a second one from being made beside an active one."""
        return None if self.rule.overlap else f"schedule:{self.name}"

    @classmethod
    def parse(cls, name: object, given: object, source: str, default_zone: str) -> "Schedule":
        """Check an entry: `{"task": "shop.tasks.close_day", "cron": "0 3 * * *"}` and what else it may hold."""
        checked_name = check_task_name(name, f"{source}: the name of a schedule")
        if not isinstance(given, Mapping):
            raise ConfigurationError(f"{source}: {given!r:.100} is not a dictionary of options.")
        refuse_unknown(given, ENTRY_OPTIONS, source)
        if given.get("task") is None:
            raise ConfigurationError(f"{source}: it names no task. 'task' is the name of the one to run.")
        queue, priority = given.get("queue"), given.get("priority")
        return cls(
            name=checked_name,
            task=check_task_name(given["task"], f"{source}: task"),
            rule=Rule.parse(given, source, default_zone),
            args=_positional(given.get("args"), f"{source}: args"),
            kwargs=_named(given.get("kwargs"), f"{source}: kwargs"),
            queue=None if queue is None else check_queue(queue, f"{source}: queue"),
            priority=None if priority is None else check_priority(priority, f"{source}: priority"),
            source=source,
        )

    @classmethod
    def read(cls, state: ScheduleState, codecs: CodecRegistry) -> "Schedule":
        """The schedule that a store keeps. Raises what is wrong with it: `ConfigurationError`, `SerializationError`."""
        source = f"the schedule {state.name!r}"
        try:
            args, kwargs = ((), {}) if state.payload is None else codecs.get(state.codec).decode_call(state.payload)
        except (ConfigurationError, SerializationError) as error:
            kind = SerializationError if isinstance(error, SerializationError) else ConfigurationError
            raise kind(f"{source}: its arguments cannot be read: {error}") from error
        given = {name: getattr(state, name) for name in (*RULE_OPTIONS, "task", "queue", "priority")}
        return cls.parse(state.name, {**given, "args": list(args), "kwargs": kwargs}, source, state.timezone)

    def state(self, job: Job, next_run_at: float, source: str = CODE) -> ScheduleState:
        """What a store keeps of it. `job` is one that it makes, whose arguments are encoded."""
        has_arguments = bool(self.args or self.kwargs)
        return ScheduleState(
            name=self.name,
            cron=self.rule.cron.text,
            timezone=self.rule.timezone,
            next_run_at=next_run_at,
            task=self.task,
            payload=job.payload if has_arguments else None,
            codec=job.codec,
            queue=self.queue,
            priority=self.priority,
            misfire=str(self.rule.misfire),
            overlap=self.rule.overlap,
            source=source,
        )


class Timetable(Protocol):
    """The schedules of one program, and how a job of one is made."""

    @property
    def default_zone(self) -> str:
        """The time zone of a schedule that names none; empty where there is none, and each has to name its own."""
        ...

    def declared(self) -> Mapping[str, Schedule]:
        """By name, those that the code and the settings declare and that can work; `problems` tells of the others."""
        ...

    @property
    def unimported(self) -> Mapping[str, BaseException]:
        """The modules that could not be imported when tasks were looked for: what they declare is not known here."""
        ...

    def problems(self) -> Sequence[str]:
        """A sentence for each declared schedule that cannot work: no such task, arguments that do not fit it."""
        ...

    def job(self, schedule: Schedule) -> Job:
        """A job as an enqueue of that call would make it now, under a new id.

        Raises `UnknownTaskError` for a task that this process does not register, `TypeError` and its kind for arguments
        that do not fit, `SerializationError` for ones that cannot be stored.
        """
        ...


def parse_entries(given: object, source: str, default_zone: str) -> dict[str, Schedule]:
    """The entries of `schedules`, by name; raises `ConfigurationError` with the path of the first wrong one."""
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{source}: {given!r:.100} is not a dictionary from names to schedules.")
    return {
        name: Schedule.parse(name, entry, f"{source}[{name!r:.300}]", default_zone) for name, entry in given.items()
    }


@lru_cache(maxsize=4_096)
def _parsed_text(text: str) -> Cron:
    return Cron.parse(text)


def parsed(text: object) -> Cron:
    """The cron expression, parsed once however many schedules or passes ask for it."""
    return _parsed_text(text) if isinstance(text, str) else Cron.parse(text)


def _what_is_missing(kept: Mapping[str, Any]) -> str:
    if not kept:
        return "it has no cron expression. 'cron' says when it fires, as in '*/15 * * * *' or '@daily'."
    return f"{', '.join(kept)} without cron. Give the cron expression as well, as in '*/15 * * * *' or '@daily'."


def _positional(value: object, source: str) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, tuple | list):
        raise ConfigurationError(f"{source}: {value!r:.100} is not a list of arguments; one is written [value].")
    return tuple(value)


def _named(value: object, source: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ConfigurationError(f"{source}: {value!r:.100} is not a dictionary of named arguments.")
    return dict(value)
