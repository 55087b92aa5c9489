"""What a type checker is told of tasks: Django's types by short names, and a task that knows its function.

The stubs make Django's types generic; at run time they are not, so they cannot be given arguments there.
"""

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypedDict, overload

from django.tasks import Task as DjangoTask
from django.tasks import TaskContext, TaskResult

from tinyjobs.core.options import Backoff

type AnyTask = DjangoTask[..., Any]
type AnyResult = TaskResult[..., Any]
type AnyContext = TaskContext[..., Any]


class Declaration(TypedDict, total=False):
    """What `@task` takes beside the function and `takes_context`. `Task` says what each means."""

    priority: int
    queue_name: str
    backend: str
    timeout: float | timedelta | None
    max_attempts: int
    retry_on: type[BaseException] | str | Sequence[type[BaseException] | str]
    retry_backoff: Backoff
    retry_base: float | timedelta
    retry_max: float | timedelta
    retry_jitter: bool
    codec: str
    result_ttl: float | timedelta | None
    expires: float | timedelta | None
    key: str | None
    cron: str | None
    timezone: str | None
    misfire: str
    overlap: bool


if TYPE_CHECKING:
    from tinyjobs.taskbackend.task import Items, Task

    TaskBase = DjangoTask[..., Any]
    ResultBase = TaskResult[..., Any]

    class TypedResult[**P, R](TaskResult[P, R]):
        """A result that knows what its task returns."""

        existing: bool
        scheduled_for: datetime | None

    class TypedTask[**P, R](Task):
        """A task that knows its function's arguments, and what comes of it: of a coroutine function, once awaited."""

        def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TypedResult[P, R]:
            """Send a job."""
            ...

        async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TypedResult[P, R]:
            """Send a job."""
            ...

        # A checker cannot hold the items against the function; what comes of them it knows.
        def enqueue_many(self, items: Items) -> list[TypedResult[P, R]]:  # type: ignore[override]
            """Send a job for each item."""
            ...

        async def aenqueue_many(self, items: Items) -> list[TypedResult[P, R]]:  # type: ignore[override]
            """Send a job for each item."""
            ...

        def get_result(self, result_id: str) -> TypedResult[P, R]:
            """Find a result by its id."""
            ...

        async def aget_result(self, result_id: str) -> TypedResult[P, R]:
            """Find a result by its id."""
            ...

        def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Run the function here and now."""
            ...

        async def acall(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Run the function here and now."""
            ...

    class TaskDecorator(Protocol):
        """What `@task(...)` with options gives."""

        @overload
        def __call__[**P, R](self, function: Callable[P, Coroutine[Any, Any, R]], /) -> TypedTask[P, R]: ...
        @overload
        def __call__[**P, R](self, function: Callable[P, R], /) -> TypedTask[P, R]: ...

    class ContextDecorator(Protocol):
        """The same for a function that gets a context in front, which is no argument of an enqueue."""

        @overload
        def __call__[**P, R](
            self, function: Callable[Concatenate[AnyContext, P], Coroutine[Any, Any, R]], /
        ) -> TypedTask[P, R]: ...
        @overload
        def __call__[**P, R](self, function: Callable[Concatenate[AnyContext, P], R], /) -> TypedTask[P, R]: ...

else:
    TaskBase = DjangoTask
    ResultBase = TaskResult
