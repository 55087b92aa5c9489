"""tinyjobs: durable background jobs for Django, in the database the project already runs.

This is the public door, and nothing but a door. What it offers is imported when it is first asked for, so that
`import tinyjobs` loads neither Django nor a database driver: a program without Django, a settings module and a
spawned worker process all pass through here. Code inside the package imports from the module that owns a name and
never from here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinyjobs.app.facade import TinyJobs
    from tinyjobs.app.results import JobHandle
    from tinyjobs.core.clock import FrozenClock
    from tinyjobs.core.context import current_job
    from tinyjobs.core.errors import (
        AppClosedError,
        ConfigurationError,
        DataRefusedError,
        JobCancelled,
        JobExpired,
        JobNotFoundError,
        JobTimeout,
        NewerStoreError,
        ResultError,
        ResultTooLarge,
        ScheduleNotFoundError,
        SchemaMissingError,
        SerializationError,
        StoreBusyError,
        StoreError,
        StoreReplacedError,
        StoreUnavailableError,
        SynchronousCallInsideEventLoopError,
        TinyJobsError,
        UnencodableResult,
        UnknownTaskError,
        UnsupportedCapabilityError,
        WaitTimeout,
        WorkerLost,
    )
    from tinyjobs.core.job import Execution, Job, Page
    from tinyjobs.core.retention import KEEP_EVERYTHING
    from tinyjobs.core.retry import Abandon, Retry
    from tinyjobs.core.status import ExecutionStatus, JobStatus
    from tinyjobs.operations.logs import JSONFormatter, TextFormatter
    from tinyjobs.taskbackend.backend import TinyJobsBackend
    from tinyjobs.taskbackend.decorator import task
    from tinyjobs.taskbackend.values import codec
    from tinyjobs.version import __version__

__all__ = [
    "KEEP_EVERYTHING",
    "Abandon",
    "AppClosedError",
    "ConfigurationError",
    "DataRefusedError",
    "Execution",
    "ExecutionStatus",
    "FrozenClock",
    "JSONFormatter",
    "Job",
    "JobCancelled",
    "JobExpired",
    "JobHandle",
    "JobNotFoundError",
    "JobStatus",
    "JobTimeout",
    "NewerStoreError",
    "Page",
    "ResultError",
    "ResultTooLarge",
    "Retry",
    "ScheduleNotFoundError",
    "SchemaMissingError",
    "SerializationError",
    "StoreBusyError",
    "StoreError",
    "StoreReplacedError",
    "StoreUnavailableError",
    "SynchronousCallInsideEventLoopError",
    "TextFormatter",
    "TinyJobs",
    "TinyJobsBackend",
    "TinyJobsError",
    "UnencodableResult",
    "UnknownTaskError",
    "UnsupportedCapabilityError",
    "WaitTimeout",
    "WorkerLost",
    "__version__",
    "codec",
    "current_job",
    "task",
]

_OWNERS = {
    "TinyJobs": "tinyjobs.app.facade",
    "JobHandle": "tinyjobs.app.results",
    "TinyJobsBackend": "tinyjobs.taskbackend.backend",
    "task": "tinyjobs.taskbackend.decorator",
    "codec": "tinyjobs.taskbackend.values",
    "current_job": "tinyjobs.core.context",
    "Abandon": "tinyjobs.core.retry",
    "Retry": "tinyjobs.core.retry",
    "FrozenClock": "tinyjobs.core.clock",
    "KEEP_EVERYTHING": "tinyjobs.core.retention",
    "JSONFormatter": "tinyjobs.operations.logs",
    "TextFormatter": "tinyjobs.operations.logs",
    "Execution": "tinyjobs.core.job",
    "Job": "tinyjobs.core.job",
    "Page": "tinyjobs.core.job",
    "ExecutionStatus": "tinyjobs.core.status",
    "JobStatus": "tinyjobs.core.status",
    "__version__": "tinyjobs.version",
}
# Whatever is public and not listed above is an exception, and all of those live together.
_ERRORS = "tinyjobs.core.errors"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tinyjobs' has no attribute {name!r}")
    owner = _OWNERS.get(name, _ERRORS)
    try:
        module = import_module(owner)
    except AttributeError as error:
        # `from tinyjobs import …` takes an AttributeError for "no such name" and would hide what really broke.
        raise ImportError(f"tinyjobs.{name} is not usable, importing {owner} failed: {error}", name=owner) from error
    value = getattr(module, name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
