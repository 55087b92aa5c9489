"""The task class: Django's `Task` with the options of tinyjobs as fields, and how they are checked.

`decorator` makes one; so does `@django.tasks.task(timeout=30)`, on Django 6.1 and while the alias is ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any, Never, Self, cast

from asgiref.sync import async_to_sync
from django.conf import settings
from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME
from django.tasks import Task as DjangoTask
from django.tasks.base import DEFAULT_TASK_PRIORITY
from django.tasks.exceptions import InvalidTask
from django.utils.module_loading import import_string

from tinyjobs.core.errors import ConfigurationError, UnsupportedCapabilityError
from tinyjobs.core.expiry import Expiry
from tinyjobs.core.options import Backoff, JobOptions, TaskOptions
from tinyjobs.core.schedules import RULE_OPTIONS, Rule
from tinyjobs.core.signature import CallCheck
from tinyjobs.taskbackend.clock import current_clock
from tinyjobs.taskbackend.typed import AnyResult, AnyTask, TaskBase

_PLAIN_OPTIONS = (
    "timeout",
    "max_attempts",
    "retry_on",
    "retry_backoff",
    "retry_base",
    "retry_max",
    "retry_jitter",
    "codec",
    "result_ttl",
)
type Items = Iterable[Sequence[Any] | Mapping[str, Any]]


# Django 6.0 gives the fields it has no defaults, so they are given here.
@dataclass(frozen=True, slots=True, kw_only=True)
class Task(TaskBase):
    """A Django task with a timeout, retries and a key. Seconds are floats; a timedelta becomes one.

    `key`: at most one active job of that key; a second enqueue gives back the first one's result. `codec`: how the
    arguments are stored, "pickle" only where the settings allow it. `result_ttl`: how long after the end the return
    value is kept. `expires`: a job that has not started so long after its enqueue, or by that instant, ends cancelled.
    `cron`: when a schedule makes jobs of it, in the time zone `timezone` (None: the alias's, or the project's);
    `misfire`: what becomes of missed firings; `overlap`: whether one may make a job while the last has not ended.
    """

    priority: int = DEFAULT_TASK_PRIORITY
    backend: str = DEFAULT_TASK_BACKEND_ALIAS
    queue_name: str = DEFAULT_TASK_QUEUE_NAME
    run_after: datetime | None = None
    takes_context: bool = False
    timeout: float | None = None
    max_attempts: int = 1
    retry_on: tuple[type[BaseException] | str, ...] = (Exception,)
    retry_backoff: Backoff = "exponential"
    retry_base: float = 1.0
    retry_max: float = 600.0
    retry_jitter: bool = True
    codec: str = "json"
    result_ttl: float | None = None
    expires: float | datetime | None = None
    key: str | None = None
    cron: str | None = None
    timezone: str | None = None
    misfire: str = "skip"
    overlap: bool = False

    def __post_init__(self) -> None:
        # Called by name: with slots, super() would look for the class that the decorator above replaced.
        for name in ("timeout", "retry_base", "retry_max", "result_ttl", "expires"):
            seconds = getattr(self, name)
            if isinstance(seconds, timedelta):  # as a decorator may have it
                object.__setattr__(self, name, seconds.total_seconds())
        retry_on: object = self.retry_on
        if not isinstance(retry_on, tuple):
            object.__setattr__(self, "retry_on", tuple(retry_on) if isinstance(retry_on, list) else (retry_on,))
        settle_run_after(self)
        DjangoTask.__post_init__(self)
        check_schedule(self)

    @classmethod
    def _reconstruct(cls, kwargs: dict[str, Any]) -> Self:
        path = kwargs["func"]
        try:
            function = import_string(path).func
        except (ImportError, AttributeError) as error:
            raise ValueError(f"Expected {path!r} to point to a Task instance.") from error
        return cls(**{**kwargs, "func": function})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by the path of its function, as Django 6.1 does it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)._reconstruct, ({**values, "func": self.module_path},)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        key: str | None = None,
        max_attempts: int | None = None,
        expires: float | timedelta | datetime | None = None,
        **other: Never,
    ) -> Self:
        """A copy with these values; None leaves a value as it is.

        What is given here is kept with each job sent through the copy and holds at every attempt.
        """
        if other:
            raise TypeError(_not_for_one_job(other))
        given: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
            "key": key,
            "max_attempts": max_attempts,
            "expires": expires,
        }
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def enqueue_many(self, items: Items) -> list[AnyResult]:
        """Send a job for each item, all or none: a sequence is positional arguments, a mapping keyword arguments."""
        backend = self.get_backend()
        if hasattr(backend, "enqueue_many"):
            return cast(list[AnyResult], backend.enqueue_many(self, items))
        return [backend.enqueue(self, args, kwargs) for args, kwargs in split_items(items)]

    async def aenqueue_many(self, items: Items) -> list[AnyResult]:
        """See `enqueue_many`."""
        backend = self.get_backend()
        if hasattr(backend, "aenqueue_many"):
            return cast(list[AnyResult], await backend.aenqueue_many(self, items))
        return [await backend.aenqueue(self, args, kwargs) for args, kwargs in split_items(items)]

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function here and now."""
        return (
            async_to_sync(self.func)(*args, **kwargs) if iscoroutinefunction(self.func) else self.func(*args, **kwargs)
        )


TASK_OPTIONS = frozenset(field.name for field in fields(Task)) - frozenset(field.name for field in fields(DjangoTask))


DEFAULT_OPTIONS = TaskOptions()
_DEFAULT_VALUES = tuple(getattr(DEFAULT_OPTIONS, name) for name in _PLAIN_OPTIONS)


def options_of(task: Task) -> TaskOptions:
    """The options of a task, checked; raises `ConfigurationError` naming the task."""
    values = _plain_values(task)
    if values == _DEFAULT_VALUES and type(task.max_attempts) is int and task.retry_jitter is True:
        return DEFAULT_OPTIONS  # True and 1 are equal, so equality alone would let the wrong kind pass
    try:
        return _options(*values)
    except (TypeError, ValueError, UnsupportedCapabilityError):
        # Not fit to be cached, or not right: parsed with the name of the task.
        return TaskOptions.parse(dict(zip(_PLAIN_OPTIONS, values, strict=True)), f"the task {task.module_path}")


@lru_cache(1_024, typed=True)
def _options(*values: Any) -> TaskOptions:
    return TaskOptions.parse(dict(zip(_PLAIN_OPTIONS, values, strict=True)), "a task")


def _plain_values(task: Task) -> tuple[Any, ...]:
    # Written out: this runs at every enqueue.
    return (
        task.timeout,
        task.max_attempts,
        task.retry_on,
        task.retry_backoff,
        task.retry_base,
        task.retry_max,
        task.retry_jitter,
        task.codec,
        task.result_ttl,
    )


def check_job_options(task: Task) -> None:
    """Raise `ConfigurationError` for a key or an expiry that no store keeps."""
    if task.key is not None or task.expires is not None:
        _job_options(task)


def expiry_of(task: Task) -> Expiry | None:
    """What the task says about its jobs' expiry. A naive datetime, possible without `USE_TZ`, is local time."""
    return None if task.expires is None else _job_options(task).expires


def _job_options(task: Task) -> JobOptions:
    expires = task.expires
    if isinstance(expires, datetime) and expires.utcoffset() is None and not settings.USE_TZ:
        expires = expires.astimezone()
    return JobOptions.parse({"key": task.key, "expires": expires}, f"the task {task.module_path}", 0.0)


def check_schedule(task: Task) -> None:
    """Raise `InvalidTask` for a schedule that cannot work, where it is declared and not when it would fire."""
    given = {name: value for name in RULE_OPTIONS if (value := getattr(task, name)) not in (None, False, "skip")}
    if not given:
        return
    source = f"the task {task.module_path}"
    try:
        Rule.parse(given, source, "UTC")
    except ConfigurationError as error:
        raise InvalidTask(str(error)) from error
    try:
        CallCheck(task.module_path, task.func, in_front=1 if task.takes_context else 0)((), {})
    except TypeError as error:
        raise InvalidTask(
            f"{source}: the schedule of a decorator calls it without arguments: {error}. Give it its arguments in "
            f"TASKS[{task.backend!r}]['OPTIONS']['schedules']."
        ) from None


def settle_run_after(task: AnyTask) -> None:
    """Make an instant of a `run_after` that was given as a timedelta, in the form that `USE_TZ` asks for."""
    delay: object = task.run_after
    if isinstance(delay, timedelta):
        zone = UTC if settings.USE_TZ else None
        now = datetime.fromtimestamp(current_clock().now(), zone)
        try:
            moment = now + delay
        except OverflowError:
            if delay > timedelta():
                raise InvalidTask("run_after: that is later than the year 9998, which no store keeps.") from None
            moment = datetime.fromtimestamp(0, zone)  # before the year 1, which is as much in the past
        object.__setattr__(task, "run_after", moment)
    elif delay is not None and not isinstance(delay, datetime):
        raise InvalidTask(f"run_after: {delay!r} is neither an aware datetime nor a timedelta.")


def split_items(items: Items) -> list[tuple[list[Any], dict[str, Any]]]:
    """Each item as positional and keyword arguments; raises `TypeError` naming the place of one that is neither."""
    calls: list[tuple[list[Any], dict[str, Any]]] = []
    for place, item in enumerate(items):
        if isinstance(item, list | tuple):
            calls.append((list(item), {}))
        elif isinstance(item, Mapping):
            calls.append(([], dict(item)))
        else:
            raise TypeError(
                f"item {place} of enqueue_many is {type(item).__name__}: give a tuple or list of positional arguments, "
                f"or a dictionary of keyword arguments."
            )
    return calls


def _not_for_one_job(given: Mapping[str, Any]) -> str:
    names = ", ".join(sorted(given))
    if TASK_OPTIONS & given.keys():
        return (
            f"using() does not take {names}: that belongs to the task and is not kept with a job. Set it where the "
            f"task is declared, or declare a second task."
        )
    return f"using() got an unexpected keyword argument: {names}"
