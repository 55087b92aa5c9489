"""What a record about a job carries beside its text, and loggers by which no job can come to harm.

Formatters are elsewhere, and so is every handler: a library that configures logging works against its application.
"""

import logging
import sys
from collections.abc import Mapping
from typing import Any, Final

from tinyjobs.core.job import Job

_MARK: Final = "_tinyjobs_shield"

#: Every logger of the package, the parent first.
LOGGERS = (
    "tinyjobs",
    "tinyjobs.dashboard",
    "tinyjobs.executors",
    "tinyjobs.hooks",
    "tinyjobs.leases",
    "tinyjobs.metrics",
    "tinyjobs.scheduler",
    "tinyjobs.sqlite",
    "tinyjobs.store",
    "tinyjobs.tasks",
    "tinyjobs.tracing",
    "tinyjobs.upkeep",
    "tinyjobs.worker",
)


def facts_of(job: Job, **more: object) -> dict[str, object]:
    """The extra fields of a record about a job: its id, task, queue and attempt, who has it, and what is given."""
    return {
        "job_id": job.id,
        "task": job.task,
        "queue": job.queue,
        "attempt": job.attempts,
        "worker_id": job.worker_id,
        **more,
    }


def shield_loggers() -> None:
    """See to it that what a handler, a filter or a program's own way to make records raises does not reach who logs.

    Changes nothing else about the loggers. Python's own handlers catch what goes wrong while they write. One of a
    program need not, and a job must not fail because somebody could not be told of it.
    """
    for name in LOGGERS:
        logger = logging.getLogger(name)
        kind = type(logger)
        if not hasattr(kind, _MARK):
            # Not by `logging.setLoggerClass`, which would be for every logger made meanwhile.
            logger.__class__ = _shielded(kind)


_kinds: dict[type[logging.Logger], type[logging.Logger]] = {}


def _shielded(kind: type[logging.Logger]) -> type[logging.Logger]:
    def handle(self: logging.Logger, record: logging.LogRecord) -> None:
        try:
            kind.handle(self, record)
        except Exception as error:
            _tell("handler", record, error)

    def make(self: logging.Logger, *given: Any, **options: Any) -> logging.LogRecord:
        try:
            return kind.makeRecord(self, *given, **options)
        except Exception as error:
            record = _plain_record(*given, **options)
            _tell("record factory", record, error)
            return record

    shield = {"handle": handle, "makeRecord": make, _MARK: True}
    return _kinds.setdefault(kind, type(kind.__name__, (kind,), shield))


def _plain_record(
    name: str,
    level: int,
    path: str,
    line: int,
    message: object,
    args: Any,
    exc_info: Any,
    function: str | None = None,
    extra: Mapping[str, object] | None = None,
    stack: str | None = None,
) -> logging.LogRecord:
    """A record as Python makes it, with our fields. Takes what `Logger.makeRecord` takes.

    One of a factory that raises, or has given its record a field of one of our names.
    """
    record = logging.LogRecord(name, level, path, line, message, args, exc_info, function, stack)
    vars(record).update(extra or {})
    return record


def _tell(what: str, record: logging.LogRecord, error: Exception) -> None:
    """As logging itself does with trouble of a handler, but in one line, and never with trouble of its own."""
    if not logging.raiseExceptions or sys.stderr is None:
        return
    try:
        sys.stderr.write(f"a log {what} raised {type(error).__name__} on a record of {record.name}\n")
    except Exception:
        return
