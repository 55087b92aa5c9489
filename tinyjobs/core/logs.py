"""What a record about a job carries beside its text, and loggers whose handlers can do a job no harm.

Formatters are elsewhere, and so is every handler: a library that configures logging works against its application.
"""

import logging
import sys
from typing import Final

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
    """See to it that what a handler or filter raises does not reach who logs. Changes nothing else about the loggers.

    Python's own handlers catch what goes wrong while they write. One of a program need not, and a job must not fail
    because somebody could not be told of it.
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
            _tell(record, error)

    return _kinds.setdefault(kind, type(kind.__name__, (kind,), {"handle": handle, _MARK: True}))


def _tell(record: logging.LogRecord, error: Exception) -> None:
    """As logging itself does with trouble of a handler, but in one line, and never with trouble of its own."""
    if not logging.raiseExceptions or sys.stderr is None:
        return
    try:
        sys.stderr.write(f"a log handler raised {type(error).__name__} on a record of {record.name}\n")
    except Exception:
        return
