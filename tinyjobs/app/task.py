"""A task as a program holds it: a function that can be called, or be sent to a worker.

Options of the enqueue and arguments of the function never share a namespace: `with_options(...)` takes the ones,
`enqueue(...)` the others, so a function may well have a parameter named `queue`.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast, overload

from tinyjobs.app.producer import Arguments, Producer, Recipe
from tinyjobs.app.results import JobHandle
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.options import JobOptions, TaskOptions, check_task_name
from tinyjobs.core.signature import CallCheck
from tinyjobs.core.task import TaskSpec


class TaskDeclaration(TypedDict, total=False):
    """The options of `@app.task`; `TaskOptions` says what they mean and what is assumed without them."""

    queue: str
    priority: int
    max_attempts: int
    timeout: float | timedelta | None
    retry_on: type[BaseException] | str | tuple[type[BaseException] | str, ...]
    retry_backoff: str | Callable[[int], float]
    retry_base: float | timedelta
    retry_max: float | timedelta
    retry_jitter: bool
    codec: str
    store_result: bool
    result_ttl: float | timedelta | None
    expires: float | timedelta | None
    cron: str | None
    timezone: str | None
    misfire: str
    overlap: bool


class Overrides(TypedDict, total=False):
    """What one enqueue may decide for its job, for every attempt of it. None leaves the task's own value.

    `delay` in seconds or as a timedelta, from the enqueue on; or `run_at`, an aware datetime. A job whose `key` is
    held by one that has not ended yet is not kept: the enqueue gives back the holder, with `existing` set. A job that
    has not started by `expires`, seconds from the enqueue or an aware datetime, ends cancelled.

    `tx`, a psycopg or sqlite3 connection or a cursor of one, is what the job is written on: it is kept if the
    transaction open there commits. That takes jobs in the same database, in Postgres or in a SQLite file.
    """

    delay: float | timedelta | None
    run_at: datetime | None
    priority: int | None
    queue: str | None
    key: str | None
    max_attempts: int | None
    codec: str | None
    expires: float | timedelta | datetime | None
    tx: object


if TYPE_CHECKING:

    class TypedJob[R](JobHandle):
        """A job that knows what its function returns: of a coroutine function, once awaited."""

        @overload
        def result[T](self: "TypedJob[Coroutine[Any, Any, T]]") -> T | None: ...
        @overload
        def result(self) -> R | None: ...
        def result(self) -> Any:
            """See `JobHandle.result`."""
            ...


class Sendable[**P, R]:
    """What a task and its `with_options` view have in common: the ways to bring jobs of it into the store."""

    _name: str
    _producer: Producer
    _recipe: Recipe
    _given: Mapping[str, Any]

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "TypedJob[R]":
        """Keep one job for a worker to run. Raises `TypeError` for arguments the function does not take, and
        `SerializationError` for ones that cannot be stored, with the path to the culprit.
        """
        return cast("TypedJob[R]", self._producer.enqueue(self._counted(), args, kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> "TypedJob[R]":
        """The same from an event loop."""
        return cast("TypedJob[R]", await self._producer.aenqueue(self._counted(), args, kwargs))

    def enqueue_many(self, items: Iterable[Arguments]) -> "list[TypedJob[R]]":
        """Keep a job for each item, all or none, in one transaction: `[(1,), (2,), {"order_id": 3}]`.

        An item is a tuple or list of positional arguments, or a mapping of keyword ones. Answers in the same order.
        """
        return cast("list[TypedJob[R]]", self._producer.enqueue_many(self._counted(), items))

    async def aenqueue_many(self, items: Iterable[Arguments]) -> "list[TypedJob[R]]":
        """The same from an event loop."""
        return cast("list[TypedJob[R]]", await self._producer.aenqueue_many(self._counted(), items))

    def with_options(self, **options: Unpack[Overrides]) -> "Sendable[P, R]":
        """A view of the task whose enqueues decide some options themselves. The task is left as it is.

        Options given before stay, and a new value wins over an old one.
        """
        given = dict(self._given) | dict(cast("dict[str, Any]", options))
        # Of two ways to say when, the one said last counts.
        for later, earlier in (("delay", "run_at"), ("run_at", "delay")):
            if later in options and earlier not in options:
                given.pop(earlier, None)
        return _View(self._name, self._producer, self._recipe, given)

    def _counted(self) -> Recipe:
        """The recipe of an enqueue that happens now: a delay counts from here."""
        return self._recipe


class _View[**P, R](Sendable[P, R]):
    def __init__(self, name: str, producer: Producer, recipe: Recipe, given: Mapping[str, Any]) -> None:
        self._name = name
        self._producer = producer
        self._given = given
        source = f"{name}.with_options()"
        self._recipe = _overridden(recipe, given, source, producer)
        if self._recipe.overrides.codec is not None:
            producer.codecs.require(self._recipe.overrides.codec, source)

    def _counted(self) -> Recipe:
        if self._given.get("delay") is None:
            return self._recipe
        return _overridden(self._recipe, self._given, self._recipe.source, self._producer)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._given.items())
        return f"<task {self._name} with {options}>"


class Task[**P, R](Sendable[P, R]):
    """A registered function. Calling it runs the function here and now, as if it were not decorated.

    `name` is what stored jobs call it; `options` what holds for its jobs unless an enqueue overrides it.
    """

    def __init__(
        self, function: Callable[P, R], name: str | None, given: Mapping[str, Any], producer: Producer
    ) -> None:
        self.source = _place(function, name)
        is_coroutine = _is_coroutine(function, self.source)
        given_name = default_name(function, self.source) if name is None else name
        self.name = self._name = check_task_name(given_name, f"{self.source}: name")
        self.function = function
        self.options = TaskOptions.parse(given, self.source)
        self.spec = TaskSpec(name=self.name, call=function, options=self.options, is_coroutine=is_coroutine)
        self._producer = producer
        self._given = {}
        self._recipe = Recipe(
            task=self.name,
            options=self.options,
            overrides=JobOptions(),
            check=CallCheck(self.name, function),
            source=self.name,
            instead=f"await {getattr(function, '__name__', 'task')}.aenqueue(…), or aenqueue_many(…),",
        )
        functools.update_wrapper(self, function, updated=())
        if is_coroutine:
            inspect.markcoroutinefunction(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function. No job is made."""
        return self.function(*args, **kwargs)

    def check_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise `TypeError` where a call of the function with these arguments would."""
        if self._recipe.check is not None:
            self._recipe.check(args, kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"


def default_name(function: Callable[..., Any], source: str) -> str:
    """`module.function`. In a script, the module has the name by which a worker would import the same file."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name:
        raise ConfigurationError(f'{source}: it has no name of its own. Give it one: @app.task(name="…").')
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        if spec is not None and spec.name:
            module = spec.name.removesuffix(".__main__")
        elif file:
            module = Path(file).stem
    return f"{module}.{name}"


def _overridden(recipe: Recipe, given: Mapping[str, Any], source: str, producer: Producer) -> Recipe:
    return Recipe(
        task=recipe.task,
        options=recipe.options,
        overrides=parsed_overrides(given, source, producer.clock.now()),
        check=recipe.check,
        source=source,
        instead=recipe.instead,
        tx=given.get("tx"),
    )


def parsed_overrides(given: Mapping[str, Any], source: str, now: float) -> JobOptions:
    """What is kept with a job. The connection it is written on is not."""
    return JobOptions.parse({name: value for name, value in given.items() if name != "tx"}, source, now)


def _place(function: object, name: str | None) -> str:
    """The function as an error message shows it, with the line where it stands."""
    shown = name or ".".join(
        str(part) for part in (getattr(function, "__module__", None), getattr(function, "__qualname__", None)) if part
    )
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"the task {shown or repr(function)}{where}"


def _is_coroutine(function: object, source: str) -> bool:
    if isinstance(function, Sendable):
        raise ConfigurationError(f"{source}: it is a task already. Register the function under it: task.function.")
    if not callable(function) or inspect.isclass(function):
        raise ConfigurationError(f"{source}: {function!r} is not a function.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"{source}: calling a generator function runs none of its code. A task is a plain or an async function."
        )
    # An object that is called like a function is as asynchronous as its class says.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
