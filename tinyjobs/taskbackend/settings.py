"""`TASKS[alias]["OPTIONS"]`, parsed once into a frozen value. Every problem is named with its path in the settings.

Parsing opens no database and imports none of the project's code: a task backend is made while the first module that
declares a task is still being imported.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings as django_settings

from tinyjobs.core.cron import zone_of
from tinyjobs.core.errors import ConfigurationError, TinyJobsError, UnsupportedCapabilityError
from tinyjobs.core.masking import Mask
from tinyjobs.core.options import TaskOptions, check_flag, check_queue, is_dotted_path, refuse_not_built
from tinyjobs.core.retention import DEFAULT_RETENTION, Retention
from tinyjobs.core.schedules import Schedule
from tinyjobs.core.url import shown_url
from tinyjobs.runtime.settings import WorkerSettings

#: What the `tasks` setting may say about a task: of its options those that Django's own task does not have.
TASK_CHANGES = frozenset(entry.name for entry in fields(TaskOptions)) - {"queue", "priority", "store_result"}
#: What a worker takes from the settings; its command line wins over them.
WORKER_OPTIONS = frozenset(entry.name for entry in fields(WorkerSettings)) - {"until_empty", "handle_signals"}
_DEFAULT_DATABASE = "default"
_SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """The options of one alias. Exactly one of `database` (an alias of `DATABASES`) and `url` is set.

    `tasks` maps import paths to the checked options that win over the task's own; `schedules` has schedules by name.
    `timezone`: that of schedules which name none; None leaves it to the project's. `mask` tells keys whose
    values no page shows. `monitoring_token` opens the views for monitoring to who sends it. `worker` and `store` hold
    what was given for those. What may be or hold a password has no part in the text: reports of errors show that.
    """

    alias: str
    database: str | None = _DEFAULT_DATABASE
    url: str | None = field(default=None, repr=False)
    eager: bool = False
    enqueue_on_commit: bool = True
    rich_arguments: bool = False
    allow_pickle: bool = False
    refuse_pickle: bool = False
    max_result_bytes: int | None = None
    retention: Retention = DEFAULT_RETENTION
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    timezone: str | None = None
    mask: Mask = field(default_factory=Mask)
    monitoring_token: str | None = field(default=None, repr=False)
    worker: Mapping[str, Any] = field(default_factory=dict)
    store: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        """Where jobs are kept, as messages name it."""
        return f"DATABASES[{self.database!r}]" if self.database is not None else shown_url(str(self.url))

    def path(self, name: str) -> str:
        """Where an option stands in the settings."""
        return option_path(self.alias, name)


class SettingsProblems(ConfigurationError):
    """What is wrong with an alias's settings: `problems` has one sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


def option_path(alias: str, name: str) -> str:
    """Where an option of an alias stands in the settings."""
    return f"TASKS[{alias!r}]['OPTIONS'][{name!r}]"


def parse(alias: str, options: object) -> BackendSettings:
    """The options of an alias, checked; raises `SettingsProblems` with everything that is wrong at once."""
    if not isinstance(options, Mapping):
        raise SettingsProblems([f"TASKS[{alias!r}]['OPTIONS']: {options!r} is not a dictionary."])
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, value in options.items():
        check = _CHECKS.get(name)
        if check is None:
            continue
        try:
            values[name] = check(value, option_path(alias, name))
        except SettingsProblems as several:
            problems += several.problems
        except TinyJobsError as error:
            problems.append(str(error))
    values["schedules"] = _schedules(alias, options, values.get("timezone"), problems)
    worker = {name: value for name, value in options.items() if name in WORKER_OPTIONS}
    for name, value in worker.items():
        problems += _worker_complaint(alias, name, value)
    store = {name: value for name, value in options.items() if name not in KNOWN}
    if "url" in values and "database" in values:
        problems.append(
            f"{option_path(alias, 'url')} and {option_path(alias, 'database')} exclude each other: jobs are kept in a "
            f"database of DATABASES or in the store that a URL names."
        )
    if problems:
        raise SettingsProblems(problems)
    if "url" in values:
        values["database"] = None
    return BackendSettings(alias=alias, worker=worker, store=store, **values)


def unknown_option(alias: str, name: str, more: frozenset[str] = frozenset()) -> str:
    """The sentence about an option nobody knows; `more` are the options of the store in use."""
    known = ", ".join(sorted(KNOWN | more))
    return f"{option_path(alias, name)} is no option of tinyjobs. There are: {known}."


def queue_problems(alias: str, queues: object) -> list[str]:
    """What is wrong with `QUEUES`; a text there would otherwise become a set of letters."""
    path = f"TASKS[{alias!r}]['QUEUES']"
    if isinstance(queues, str) or not isinstance(queues, list | tuple | set | frozenset):
        return [f"{path}: {queues!r} is not a list of queue names."]
    return [problem for queue in queues for problem in _complaint(lambda: check_queue(queue, path))]  # noqa: B023


def _complaint(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except TinyJobsError as error:
        return [str(error)]
    return []


def _worker_complaint(alias: str, name: str, value: object) -> list[str]:
    path = option_path(alias, name)
    # The runtime names the setting after its source; here the path does that already.
    complaints = _complaint(lambda: WorkerSettings.parse({name: value}, path))
    return [complaint.replace(f"{path}: {name}: ", f"{path}: ", 1) for complaint in complaints]


def project_zone() -> str:
    """The project's time zone; empty where it has none."""
    return django_settings.TIME_ZONE or ""


def _schedules(
    alias: str, options: Mapping[str, Any], timezone: str | None, problems: list[str]
) -> dict[str, Schedule]:
    path, given = option_path(alias, "schedules"), options.get("schedules", {})
    if not isinstance(given, Mapping):
        problems.append(f"{path}: {given!r:.100} is not a dictionary from names to schedules.")
        return {}
    found: dict[str, Schedule] = {}
    for name, entry in given.items():
        try:
            found[name] = Schedule.parse(name, entry, f"{path}[{name!r:.300}]", timezone or project_zone())
        except TinyJobsError as error:
            problems.append(str(error))
    return found


def _zone(value: object, path: str) -> str | None:
    if value is None:
        return None
    try:
        zone_of(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    return str(value)


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{path}: {value!r} is not a text.")
    return value


def _url(value: object, path: str) -> str:
    url = _text(value, path)
    if "://" not in url:
        raise ConfigurationError(
            f"{path}: {shown_url(url)!r} is no store URL. Write for example sqlite:///jobs.db or memory://."
        )
    return url


def _bytes(value: object, path: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < math.inf:
        raise ConfigurationError(f"{path}: {value!r} is not a number of bytes above 0, nor None.")
    return value


def _token(value: object, path: str) -> str | None:
    if value is None:
        return None
    # The value itself stays out of the message, which ends up in logs.
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or " " in value:
        raise ConfigurationError(f"{path} is not a text of ASCII characters without spaces, as a header needs it.")
    if len(value) < _SHORTEST_TOKEN:
        raise ConfigurationError(
            f"{path} has {len(value)} characters, so it can be guessed; {_SHORTEST_TOKEN} are the least. "
            f"python -c 'import secrets; print(secrets.token_urlsafe())' makes one."
        )
    return value


def _tasks(value: object, path: str) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{path}: {value!r} is not a dictionary from import paths to options.")
    checked: dict[str, Mapping[str, Any]] = {}
    problems: list[str] = []
    for task, given in value.items():
        entry = f"{path}[{task!r}]"
        try:
            checked[task] = _changes(task, given, entry)
        except TinyJobsError as error:
            problems.append(str(error))
    if problems:
        raise SettingsProblems(problems)
    return checked


def _changes(task: object, given: object, entry: str) -> Mapping[str, Any]:
    if not isinstance(task, str) or not is_dotted_path(task):
        raise ConfigurationError(f"{entry}: {task!r} is not the import path of a task, such as 'shop.tasks.send_mail'.")
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{entry}: {given!r} is not a dictionary of options.")
    refuse_not_built(given, entry)
    for name in given:
        if name not in TASK_CHANGES:
            raise UnsupportedCapabilityError(
                f"{entry}[{name!r}] cannot be set here. What can: {', '.join(sorted(TASK_CHANGES))}."
            )
    parsed = TaskOptions.parse(given, entry)
    return {name: getattr(parsed, name) for name in given}


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "database": _text,
    "url": _url,
    "eager": check_flag,
    "enqueue_on_commit": check_flag,
    "rich_arguments": check_flag,
    "allow_pickle": check_flag,
    "refuse_pickle": check_flag,
    "max_result_bytes": _bytes,
    "retention": Retention.parse,
    "tasks": _tasks,
    "timezone": _zone,
    "mask": Mask.parse,
    "monitoring_token": _token,
}
KNOWN = frozenset(_CHECKS) | {"schedules"} | WORKER_OPTIONS
