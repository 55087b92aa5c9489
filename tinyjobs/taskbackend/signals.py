"""Django's task signals: sent robustly, and skipped at no cost where only Django's own logger would hear them.

The sender is the task backend's class, as Django's own backends have it. A receiver that raises is logged by Django
and changes nothing.
"""

from logging import DEBUG, INFO
from types import SimpleNamespace
from typing import Any

from django.dispatch import Signal
from django.tasks import signals as django_signals
from django.tasks.signals import logger as django_logger
from django.tasks.signals import task_enqueued, task_finished, task_started

__all__ = ["is_heard", "is_logged", "log_only", "send", "task_enqueued", "task_finished", "task_started"]

_LOGGERS = {
    id(task_enqueued): django_signals.log_task_enqueued,
    id(task_started): django_signals.log_task_started,
    id(task_finished): django_signals.log_task_finished,
}


def is_heard(signal: Signal) -> bool:
    """Whether anybody but Django's logger listens."""
    own = id(_LOGGERS[id(signal)])
    return any(entry[0][0] != own for entry in signal.receivers)


def is_logged(signal: Signal) -> bool:
    """Whether Django's logger would write anything."""
    return bool(signal.receivers) and django_logger.isEnabledFor(DEBUG if signal is task_enqueued else INFO)


def send(signal: Signal, sender: type, result: Any) -> None:
    """Tell every receiver, as far as anybody hears it."""
    if is_heard(signal) or is_logged(signal):
        signal.send_robust(sender=sender, task_result=result)


def log_only(signal: Signal, sender: type, *, job_id: str, task: Any, status: Any, alias: str) -> None:
    """Tell Django's logger, if it is still connected, what it writes; for when `is_heard` says that nobody else is."""
    if is_logged(signal):
        told: Any = SimpleNamespace(id=job_id, task=task, status=status, backend=alias)
        _LOGGERS[id(signal)](sender=sender, task_result=told)
