"""The task class: Django's `Task` with the options of tinyjobs as fields, and the decorator that makes one anywhere.

`@django.tasks.task(timeout=30)` makes it too, on Django 6.1 and while the alias is ours. The decorator here also works
on Django 6.0 and whatever task backend the settings name, so that a test run on another backend needs no changes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Concatenate, Literal, Self, cast, overload

from asgiref.sync import async_to_sync
from django.conf import settings
from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, task_backends
from django.tasks import Task as DjangoTask
from django.tasks.base import DEFAULT_TASK_PRIORITY
from django.tasks.exceptions import InvalidTask
from django.utils.module_loading import import_string

from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.core.options import Backoff, JobOptions, TaskOptions, refuse_not_built
from tinyjobs.taskbackend.clock import current_clock
from tinyjobs.taskbackend.typed import AnyContext, AnyResult, AnyTask, TaskBase

#: Names that later releases will use on a task.
RESERVED = frozenset({"follows", "metadata"})
_PLAIN_OPTIONS = (
    "timeout",
    "max_attempts",
    "retry_on",
    "retry_backoff",
    "retry_base",
    "retry_max",
    "retry_jitter",
    "codec",
)
type Items = Iterable[Sequence[Any] | Mapping[str, Any]]


# Django 6.0 gives the fields it has no defaults, so they are given here.
@dataclass(frozen=True, slots=True, kw_only=True)
class Task(TaskBase):
    """A Django task with a timeout, retries and a key. Seconds are floats; a timedelta becomes one.

    `key`: at most one active job of that key; a second enqueue gives back the first one's result. `codec`: how the
    arguments are stored, "pickle" only where the settings allow it.
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
    key: str | None = None

    def __post_init__(self) -> None:
        # Called by name: with slots, super() would look for the class that the decorator above replaced.
        for name in ("timeout", "retry_base", "retry_max"):
            seconds = getattr(self, name)
            if isinstance(seconds, timedelta):  # as a decorator may have it
                object.__setattr__(self, name, seconds.total_seconds())
        retry_on: object = self.retry_on
        if not isinstance(retry_on, tuple):
            object.__setattr__(self, "retry_on", tuple(retry_on) if isinstance(retry_on, list) else (retry_on,))
        settle_run_after(self)
        DjangoTask.__post_init__(self)

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
        **other: Any,
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
    )


def check_key(task: Task) -> None:
    """Raise `ConfigurationError` for a key that no store keeps."""
    if task.key is not None:
        JobOptions.parse({"key": task.key}, f"the task {task.module_path}", 0.0)


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


if TYPE_CHECKING:
    # What the decorator promises to a type checker: sending takes the arguments of the function.
    class TypedTask[**P, R](Task):
        """A task that knows its function's arguments."""

        def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> AnyResult:
            """Send a job."""
            ...

        async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> AnyResult:
            """Send a job."""
            ...

        def call(self, *args: Any, **kwargs: Any) -> R:
            """Run the function here and now."""
            ...


@overload
def task[**P, R](function: Callable[P, R]) -> "TypedTask[P, R]": ...


@overload
def task[**P, R](
    function: None = None, *, takes_context: Literal[True], **options: Any
) -> "Callable[[Callable[Concatenate[AnyContext, P], R]], TypedTask[P, R]]": ...


@overload
def task[**P, R](
    function: None = None,
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: Literal[False] = ...,
    timeout: float | timedelta | None = ...,
    max_attempts: int = ...,
    retry_on: type[BaseException] | str | Sequence[type[BaseException] | str] = ...,
    retry_backoff: Backoff = ...,
    retry_base: float | timedelta = ...,
    retry_max: float | timedelta = ...,
    retry_jitter: bool = ...,
    codec: str = ...,
    key: str | None = ...,
) -> "Callable[[Callable[P, R]], TypedTask[P, R]]": ...


def task(
    function: Callable[..., Any] | None = None,
    *,
    priority: int = DEFAULT_TASK_PRIORITY,
    queue_name: str = DEFAULT_TASK_QUEUE_NAME,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    **options: Any,
) -> Any:
    """Make a task of a module-level function; used bare or with options.

    Under a task backend that knows nothing of the options they are kept on the task and have no effect.
    """
    _refuse(options)

    def wrapper(decorated: Callable[..., Any]) -> Any:
        made: Any = task_backends[backend].task_class
        accepted = {field.name for field in fields(made)}
        if made is DjangoTask:
            made, accepted = Task, set(TASK_OPTIONS)
        # Another backend's own class takes what it knows.
        kept = {name: value for name, value in options.items() if name in accepted}
        return made(
            func=decorated,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            takes_context=takes_context,
            run_after=None,
            **kept,
        )

    return wrapper if function is None else wrapper(function)


def _refuse(options: Mapping[str, Any]) -> None:
    if "run_after" in options:
        raise TypeError(
            "run_after cannot be defined statically with the @task decorator. "
            "Use .using(run_after=...) to set it dynamically."
        )
    for name in sorted(RESERVED & options.keys()):
        raise UnsupportedCapabilityError(f"@task: {name} is a reserved name and cannot be set here.")
    refuse_not_built(options, "@task")
    unknown = sorted(options.keys() - TASK_OPTIONS)
    if unknown:
        raise TypeError(f"task() got an unexpected keyword argument {unknown[0]!r}")
