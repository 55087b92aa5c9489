"""Which of the project's functions a stored job may run: the catalogue over Django tasks.

A job's row is data, and whoever can write one must not be able to make a worker import what it likes. So a name is
only looked for in modules of installed apps, and only a `django.tasks.Task` whose own path is that name is accepted.
A task declared for another alias is run here all the same: its alias is where it goes by default, not a boundary.
"""

import importlib
import importlib.util
import logging
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any

from django.apps import apps
from django.tasks import Task as DjangoTask

from tinyjobs.core.errors import TinyJobsError, UnknownTaskError
from tinyjobs.core.options import NAME_LIMIT, TaskOptions
from tinyjobs.core.retry import resolve_retry_on
from tinyjobs.core.task import TaskSpec
from tinyjobs.taskbackend.normal import normalised
from tinyjobs.taskbackend.running import TaskCall
from tinyjobs.taskbackend.settings import BackendSettings
from tinyjobs.taskbackend.task import Task, options_of
from tinyjobs.taskbackend.typed import AnyTask

logger = logging.getLogger("tinyjobs.tasks")

# Names nobody knows are remembered as such, within bounds: a row can hold any text.
_UNKNOWN_KEPT = 1_000


class DjangoCatalogue:
    """The tasks of the installed apps, by import path. Looked up once each, and kept."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._specs: dict[str, TaskSpec | None] = {}
        self._lock = threading.Lock()
        self._thread_names: frozenset[str] | None = None

    def find(self, name: str) -> TaskSpec | None:
        """The task at that path, or None: not in an installed app, not a task, or not usable in this process."""
        try:
            return self._specs[name]
        except KeyError:
            return self._look_up(name)

    def names(self) -> Collection[str]:
        """The paths found so far; `discover` finds those of every app's tasks module."""
        return [name for name, spec in list(self._specs.items()) if spec is not None]

    def thread_names(self) -> frozenset[str]:
        """The paths found so far of tasks that are plain functions."""
        found = self._thread_names
        if found is None:
            specs = list(self._specs.items())
            found = frozenset(name for name, spec in specs if spec is not None and not spec.is_coroutine)
            self._thread_names = found
        return found

    def discover(self) -> dict[str, BaseException]:
        """Import the tasks module of every installed app and add what is found; the modules that failed to import."""
        modules, failed = import_tasks_modules()
        for module in modules:
            for value in list(vars(module).values()):
                if isinstance(value, DjangoTask):
                    self.find(value.module_path)
        return failed

    def check_settings(self) -> list[str]:
        """What is wrong with the paths of the `tasks` setting; imports them."""
        return [
            f"{self._settings.path('tasks')}[{path!r}] names no task of the installed apps."
            for path in self._settings.tasks
            if self.find(path) is None
        ]

    def declared(self, path: str) -> AnyTask:
        """The task object at that path. Raises `UnknownTaskError` when this process has none."""
        spec = self.find(path)
        if spec is None or not isinstance(spec.call, TaskCall):
            raise UnknownTaskError(
                f"The stored job names the task {path!r}, which is no task of the apps installed here: it was removed "
                f"or renamed since the job was sent, or its app is not in INSTALLED_APPS."
            )
        return spec.call.task

    def _look_up(self, name: str) -> TaskSpec | None:
        task = locate(name)
        spec = None
        if task is not None:
            try:
                spec = self._spec_of(name, task)
            except TinyJobsError as error:
                logger.error("the task %s cannot be run here: %s", name, error, extra={"task": name})
        with self._lock:
            if spec is None and sum(1 for known in self._specs.values() if known is None) >= _UNKNOWN_KEPT:
                return None
            self._thread_names = None
            return self._specs.setdefault(name, spec)

    def _spec_of(self, name: str, task: AnyTask) -> TaskSpec:
        options = effective_options(task, self._settings.tasks.get(name, {}))
        resolve_retry_on(options)  # a path that does not import is found out now, not when the first attempt fails
        is_coroutine = iscoroutinefunction(task.func)
        return TaskSpec(
            name=name,
            call=TaskCall.of(task, self._settings.alias, is_coroutine=is_coroutine),
            options=options,
            is_coroutine=is_coroutine,
            clean_result=None if _keeps_types(options, self._settings) else normalised,
        )


def import_tasks_modules() -> tuple[list[ModuleType], dict[str, BaseException]]:
    """The tasks modules of the installed apps; those that failed to import, each with its error."""
    modules: list[ModuleType] = []
    failed: dict[str, BaseException] = {}
    for config in apps.get_app_configs():
        module_name = f"{config.name}.tasks"
        try:
            module = _import_if_there(module_name)
        except (Exception, SystemExit) as error:
            failed[module_name] = error
        else:
            modules += [] if module is None else [module]
    return modules, failed


def effective_options(task: AnyTask, changes: Mapping[str, Any]) -> TaskOptions:
    """How a task runs: its own options, over them those of the `tasks` setting, field by field."""
    options = options_of(task) if isinstance(task, Task) else TaskOptions()
    return replace(options, **{**changes, "store_result": True})


def locate(path: str) -> AnyTask | None:
    """The task at an import path inside an installed app, or None. An import that raises is logged."""
    module_name, _, attribute = path.rpartition(".")
    if not module_name or len(path) > NAME_LIMIT or not _is_installed(path):
        return None
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        is_absent = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
        if not is_absent:
            logger.exception("importing %s for the task %s failed", module_name, path, extra={"task": path})
        return None
    found = getattr(module, attribute, None)
    return found if isinstance(found, DjangoTask) and found.module_path == path else None


def sendable(task: AnyTask) -> str | None:
    """Why a worker would not find a task, or None when it would. For the moment a job is sent."""
    path = task.module_path
    if len(path) > NAME_LIMIT:
        return f"its path is {len(path)} characters long; {NAME_LIMIT} are allowed"
    if not _is_installed(path):
        return "its module belongs to no app in INSTALLED_APPS"
    if locate(path) is None:
        return f"there is no task at {path}; has the decorated function another name there?"
    return None


def _is_installed(path: str) -> bool:
    return apps.get_containing_app_config(path) is not None


def _keeps_types(options: TaskOptions, settings: BackendSettings) -> bool:
    return settings.rich_arguments or options.codec != "json"


def _import_if_there(module_name: str) -> ModuleType | None:
    if importlib.util.find_spec(module_name) is None:
        return None
    return importlib.import_module(module_name)
