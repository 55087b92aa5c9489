"""What a command works on: a store with the tasks around it. Here the protocol, and the one of a program's app.

Django's target is made by the management command, which knows Django; the commands know the protocol alone.
"""

import importlib
import os
import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from tinyjobs.app.facade import TinyJobs
from tinyjobs.backends.base import Backend
from tinyjobs.cli.imports import Failures, import_all, told
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.job import Job
from tinyjobs.core.retention import Retention
from tinyjobs.core.schedules import Timetable
from tinyjobs.core.task import Catalogue
from tinyjobs.core.watching import Finding
from tinyjobs.operations.check import BUDGET, too_slow
from tinyjobs.operations.metrics import Metrics
from tinyjobs.operations.timely import timely
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.standalone import StandaloneScheduler
from tinyjobs.runtime.worker import Worker
from tinyjobs.version import __version__


class Target(Protocol):
    """One store and its tasks, as a command needs them. Opens nothing before it has to."""

    #: How the target is called on the command line, and where its jobs are; neither holds a password.
    name: str
    where: str
    #: Worker settings that the program's own settings give; the command line wins over them.
    worker_defaults: Mapping[str, Any]

    @property
    def catalogue(self) -> Catalogue:
        """The tasks."""
        ...

    @property
    def timetable(self) -> Timetable:
        """The schedules."""
        ...

    @property
    def codecs(self) -> CodecRegistry:
        """How arguments and results are read."""
        ...

    @property
    def retention(self) -> Retention:
        """For how long ended jobs are kept."""
        ...

    @property
    def metrics(self) -> Metrics:
        """What this process counts of the target's jobs."""
        ...

    @property
    def store(self) -> Backend:
        """The store for calls in this thread; its coroutines never suspend."""
        ...

    def discover(self, patterns: Sequence[str]) -> Failures:
        """Import the modules with tasks, and those of the patterns; the ones that could not be imported."""
        ...

    def check_layout(self) -> None:
        """Raise `SchemaMissingError` while the tables are not there and somebody else has to make them."""
        ...

    def check(self, *, max_wait: float | None, store_warnings: bool) -> list[Finding]:
        """The health check, within its time; see `operations.check`."""
        ...

    def declared_queues(self) -> Collection[str]:
        """The queues that tasks and settings name."""
        ...

    def versions(self) -> Sequence[str]:
        """Names and versions of what the target runs on."""
        ...

    def announce(self, job: Job) -> None:
        """Tell whom the program would tell of a job that it sends itself."""
        ...

    def warnings(self) -> Sequence[str]:
        """What whoever starts a worker should know."""
        ...

    def worker(self, settings: WorkerSettings) -> Worker:
        """A worker, not yet running."""
        ...

    def scheduler(self, grace: float) -> StandaloneScheduler:
        """A scheduler without a worker, not yet running."""
        ...

    async def close_worker(self) -> None:
        """Let go of what the worker or scheduler used, on its event loop."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class AppTarget:
    """The target of a program without Django: its `TinyJobs` app."""

    worker_defaults: Mapping[str, Any] = {}

    def __init__(self, name: str, app: TinyJobs) -> None:
        self.name = name
        self.where = app.where
        self._app = app
        self._is_stuck = False

    @property
    def app(self) -> TinyJobs:
        """The app itself."""
        return self._app

    @property
    def catalogue(self) -> Catalogue:
        """See `Target.catalogue`."""
        return self._app.engine.catalogue

    @property
    def timetable(self) -> Timetable:
        """See `Target.timetable`."""
        return self._app.timetable

    @property
    def codecs(self) -> CodecRegistry:
        """See `Target.codecs`."""
        return self._app.engine.codecs

    @property
    def retention(self) -> Retention:
        """See `Target.retention`."""
        return self._app.engine.retention

    @property
    def metrics(self) -> Metrics:
        """See `Target.metrics`."""
        return self._app.metrics

    @property
    def store(self) -> Backend:
        """See `Target.store`."""
        return self._app.engine.store.inline()

    def discover(self, patterns: Sequence[str]) -> Failures:
        """See `Target.discover`. The app's own module was imported to find it."""
        _, failures = import_all(patterns)
        # An unknown task of a schedule is then no mistake in the schedule, and no reason not to start.
        self._app.timetable.unimported = failures
        return failures

    def check_layout(self) -> None:
        """Make the tables, or check them."""
        self._app.setup()

    def check(self, *, max_wait: float | None, store_warnings: bool) -> list[Finding]:
        """See `Target.check`. An app whose store does not answer in time is left as it is, with the call under way."""
        try:
            return timely(self, lambda: self._app.check(max_wait=max_wait, store_warnings=store_warnings), BUDGET)
        except TimeoutError:
            self._is_stuck = True
            return [too_slow()]
        except KeyboardInterrupt:
            self._is_stuck = True  # as far as anybody here can tell
            raise

    def declared_queues(self) -> Collection[str]:
        """See `Target.declared_queues`."""
        return {task.options.queue for task in self._app.tasks.values()}

    def versions(self) -> Sequence[str]:
        """See `Target.versions`."""
        return own_versions()

    def announce(self, job: Job) -> None:
        """Nobody: an app has no hook for that."""

    def warnings(self) -> Sequence[str]:
        """See `Target.warnings`."""
        return ()

    def worker(self, settings: WorkerSettings) -> Worker:
        """See `Target.worker`."""
        return self._app.worker(**asdict(settings))

    def scheduler(self, grace: float) -> StandaloneScheduler:
        """See `Target.scheduler`."""
        return self._app.scheduler(misfire_grace=grace)

    async def close_worker(self) -> None:
        """See `Target.close_worker`."""
        await self._app.aclose()

    def close(self) -> None:
        """See `Target.close`."""
        if not self._is_stuck:
            self._app.close()


def own_versions() -> list[str]:
    """What everything here runs on."""
    return [f"tinyjobs {__version__}", f"Python {platform.python_version()}"]


def find_app(spec: str) -> AppTarget:
    """The app that `module:name` stands for. Raises `ConfigurationError` that says what is wrong with it."""
    module_name, _, path = spec.partition(":")
    if not module_name or not path:
        raise ConfigurationError(f"--app {spec}: write the module and the name of the app in it, as in myproject:app.")
    _look_in_current_folder()
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        reason = f"--app {spec}: the module {module_name} cannot be imported: {told(error)}"
        raise ConfigurationError(reason) from error
    for name in path.split("."):
        found = getattr(found, name, None)
    if not isinstance(found, TinyJobs):
        apps = sorted(name for name, value in vars(sys.modules[module_name]).items() if isinstance(value, TinyJobs))
        hint = f"there is {module_name}:{apps[0]}." if apps else "it holds no TinyJobs app."
        raise ConfigurationError(f"--app {spec}: the module {module_name} has no app of that name; {hint}")
    return AppTarget(spec, found)


def _look_in_current_folder() -> None:
    # The installed program starts with its own folder on the path instead.
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
