"""Django's task signals: sent robustly, and skipped at no cost where only Django's own logger would hear them.

The sender is the task backend's class, as Django's own backends have it. A receiver that raises is logged by Django
and changes nothing.
"""

from collections.abc import Callable
from logging import DEBUG, ERROR, INFO, WARNING, Handler, Logger, getLogger
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.dispatch import Signal
from django.tasks import TaskResultStatus
from django.tasks import signals as django_signals
from django.tasks.signals import logger as django_logger
from django.tasks.signals import task_enqueued, task_finished, task_started
from django.utils.log import RequireDebugTrue

__all__ = ["is_heard", "is_logged", "log_only", "send", "task_enqueued", "task_finished", "task_started"]

logger = getLogger("tinyjobs.tasks")

_LOGGERS: dict[Signal, Callable[..., None]] = {
    task_enqueued: django_signals.log_task_enqueued,
    task_started: django_signals.log_task_started,
    task_finished: django_signals.log_task_finished,
}
_OWN = {signal: id(receiver) for signal, receiver in _LOGGERS.items()}


def is_heard(signal: Signal) -> bool:
    """Whether anybody but Django's logger listens."""
    own = _OWN[signal]
    for entry in signal.receivers:  # noqa: SIM110 - asked twice for every job, and any() costs twice as much
        if entry[0][0] != own:
            return True
    return False


def is_logged(signal: Signal, *, failed: bool = False) -> bool:
    """Whether a line of Django's logger about the signal would end up anywhere.

    Django's default logging lets everything of level INFO through to a handler that drops it unless DEBUG is on; a
    worker that wrote those records for nobody would spend a good part of its time on them.
    """
    if not signal.receivers:
        return False
    level = DEBUG if signal is task_enqueued else ERROR if failed else INFO
    if not django_logger.isEnabledFor(level):
        return False
    return level >= WARNING or _has_handler(level)


def send(signal: Signal, sender: type, result: Any) -> None:
    """Tell every receiver, as far as anybody hears it."""
    if is_heard(signal) or is_logged(signal, failed=result.status == TaskResultStatus.FAILED):
        signal.send_robust(sender=sender, task_result=result)


def log_only(
    signal: Signal, sender: type, *, job_id: str, task: Any, status: Any, alias: str, failed: bool = False
) -> None:
    """Tell Django's logger, if it is still connected, what it writes; for when `is_heard` says that nobody else is."""
    if is_logged(signal, failed=failed):
        told: Any = SimpleNamespace(id=job_id, task=task, status=status, backend=alias)
        try:
            _LOGGERS[signal](sender=sender, task_result=told)
        except Exception as error:
            # As `send_robust` takes it: a log handler that raises must not fail the job it tells of.
            logger.error("Django's line about job %s could not be logged: %s", job_id, error, extra={"job_id": job_id})


def _has_handler(level: int) -> bool:
    found: Logger | None = django_logger
    while found is not None:
        for handler in found.handlers:
            if handler.level <= level and not _drops_everything(handler):
                return True
        found = found.parent if found.propagate else None
    return False


def _drops_everything(handler: Handler) -> bool:
    for entry in handler.filters:
        if isinstance(entry, RequireDebugTrue):
            return not settings.DEBUG
    return False
