"""What the runtime needs to know of a task, and where it asks.

A `TaskSpec` is a function with a stable name and parsed options. The catalogue is the trust boundary: a stored job
names a task, and only what the catalogue answers for that name is ever run.
"""

import inspect
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tinyjobs.core.job import Job
from tinyjobs.core.options import TaskOptions

type Around = Callable[[Job], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """A registered task. `call` is what runs: the function itself, or a wrapper that gives it more than arguments.

    `clean_result` turns a return value into the one that is stored, or raises; the job then fails for good, since its
    function already ran.
    """

    name: str
    call: Callable[..., Any]
    options: TaskOptions = field(default_factory=TaskOptions)
    is_coroutine: bool = False
    clean_result: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, name: str, function: Callable[..., Any], options: TaskOptions) -> "TaskSpec":
        """The spec of a plain function or coroutine function."""
        return cls(name=name, call=function, options=options, is_coroutine=inspect.iscoroutinefunction(function))


class Catalogue(Protocol):
    """Where task names are looked up."""

    def find(self, name: str) -> TaskSpec | None:
        """The task of that name, or None when this process does not know it. Never imports on a row's say-so."""
        ...

    def names(self) -> Collection[str]:
        """The names known right now."""
        ...

    def thread_names(self) -> frozenset[str]:
        """The names known right now whose functions run in threads."""
        ...
