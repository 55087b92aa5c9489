"""`@task`: makes a task of a function, on Django 6.0 as well, whatever task backend the settings name.

So a test run on another backend needs no changes. What the options mean is the task class's business.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Concatenate, Literal, Unpack, overload

from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, task_backends
from django.tasks import Task as DjangoTask
from django.tasks.base import DEFAULT_TASK_PRIORITY

from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.core.options import refuse_not_built
from tinyjobs.taskbackend.task import TASK_OPTIONS, Task
from tinyjobs.taskbackend.typed import AnyContext, Declaration

#: Names that later releases will use on a task.
RESERVED = frozenset({"follows", "metadata"})

if TYPE_CHECKING:
    from tinyjobs.taskbackend.typed import ContextDecorator, TaskDecorator, TypedTask


@overload
def task[**P, R](
    function: Callable[Concatenate[AnyContext, P], Coroutine[Any, Any, R]],
    *,
    takes_context: Literal[True],
    **options: Unpack[Declaration],
) -> "TypedTask[P, R]": ...


@overload
def task[**P, R](
    function: Callable[Concatenate[AnyContext, P], R], *, takes_context: Literal[True], **options: Unpack[Declaration]
) -> "TypedTask[P, R]": ...


@overload
def task[**P, R](
    function: Callable[P, Coroutine[Any, Any, R]],
    *,
    takes_context: Literal[False] = ...,
    **options: Unpack[Declaration],
) -> "TypedTask[P, R]": ...


@overload
def task[**P, R](
    function: Callable[P, R], *, takes_context: Literal[False] = ..., **options: Unpack[Declaration]
) -> "TypedTask[P, R]": ...


@overload
def task(
    function: None = None, *, takes_context: Literal[True], **options: Unpack[Declaration]
) -> "ContextDecorator": ...


@overload
def task(
    function: None = None, *, takes_context: Literal[False] = ..., **options: Unpack[Declaration]
) -> "TaskDecorator": ...


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
