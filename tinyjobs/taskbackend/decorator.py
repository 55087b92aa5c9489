"""`@task`: makes a task of a function, on Django 6.0 as well, whatever task backend the settings name.

So a test run on another backend needs no changes. What the options mean is the task class's business.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Literal, overload

from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, task_backends
from django.tasks import Task as DjangoTask
from django.tasks.base import DEFAULT_TASK_PRIORITY

from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.core.options import Backoff, refuse_not_built
from tinyjobs.taskbackend.task import TASK_OPTIONS, Task
from tinyjobs.taskbackend.typed import AnyContext, AnyResult

#: Names that later releases will use on a task.
RESERVED = frozenset({"follows", "metadata"})

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
    result_ttl: float | timedelta | None = ...,
    expires: float | timedelta | None = ...,
    key: str | None = ...,
    cron: str | None = ...,
    timezone: str | None = ...,
    misfire: str = ...,
    overlap: bool = ...,
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
