"""The tasks of one app, by name: the catalogue its workers ask. What is not registered here is not run, and nothing is
imported to find it.
"""

import threading
from types import MappingProxyType
from typing import Any

from tinyjobs.app.task import Task
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.task import TaskSpec


class TaskRegistry:
    """Filled by `@app.task` while modules are imported, read by every claim; safe to do both at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, Task[..., Any]] = {}
        self._thread_names: frozenset[str] = frozenset()
        #: Every task by its name, as it stands: tasks registered later show up in it.
        self.tasks = MappingProxyType(self._tasks)

    def renew_after_fork(self) -> None:
        """Make a new lock, in a forked child."""
        self._lock = threading.Lock()

    def add(self, task: Task[..., Any]) -> None:
        """Register a task. A second one of the same name is refused: stored jobs could not tell them apart."""
        with self._lock:
            holder = self._tasks.get(task.name)
            if holder is not None:
                raise ConfigurationError(
                    f"{task.source}: the name is taken by {holder.source}. Give one of them another name: "
                    f'@app.task(name="…").'
                )
            self._tasks[task.name] = task
            if not task.spec.is_coroutine:
                self._thread_names |= {task.name}

    def find(self, name: str) -> TaskSpec | None:
        """See `Catalogue.find`."""
        task = self._tasks.get(name)
        return None if task is None else task.spec

    def names(self) -> frozenset[str]:
        """See `Catalogue.names`."""
        with self._lock:
            return frozenset(self._tasks)

    def thread_names(self) -> frozenset[str]:
        """See `Catalogue.thread_names`."""
        return self._thread_names
