"""What to do about each kind of trouble a store can be in. The one place that decides it.

A store's `errors.py` says which kind a driver's error is, by raising the matching `StoreError`; this module says
whether to try again, after how long, and how loudly to say so. It knows no driver.
"""

import logging
from dataclasses import dataclass
from enum import Enum

from tinyjobs.core.errors import (
    ConfigurationError,
    DataRefusedError,
    NewerStoreError,
    SchemaMissingError,
    StoreBusyError,
    StoreReplacedError,
    StoreUnavailableError,
)


class Trouble(Enum):
    """The kinds of trouble."""

    CONTENTION = "contention"
    OUTAGE = "outage"
    MISCONFIGURATION = "misconfiguration"
    REPLACEMENT = "replacement"
    DATA = "data"
    UNEXPECTED = "unexpected"


_KINDS: tuple[tuple[type[BaseException], Trouble], ...] = (
    (StoreBusyError, Trouble.CONTENTION),
    (StoreUnavailableError, Trouble.OUTAGE),
    (SchemaMissingError, Trouble.OUTAGE),
    (StoreReplacedError, Trouble.REPLACEMENT),
    (NewerStoreError, Trouble.MISCONFIGURATION),
    (ConfigurationError, Trouble.MISCONFIGURATION),
    (DataRefusedError, Trouble.DATA),
)


def kind_of(error: BaseException) -> Trouble:
    """The kind of trouble an error stands for."""
    for types, kind in _KINDS:
        if isinstance(error, types):
            return kind
    return Trouble.UNEXPECTED


def is_final(error: BaseException) -> bool:
    """Whether nothing this process does can ever succeed again, so that it had better end and be started anew."""
    return kind_of(error) is Trouble.REPLACEMENT


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed later."""
    return kind_of(error) in (Trouble.CONTENTION, Trouble.OUTAGE)


def log_failure(logger: logging.Logger, error: BaseException, text: str, *arguments: object) -> None:
    """Log what failed and is tried again: a warning where that may help, else an error with its traceback.

    `text` has a place for each of the arguments, and one for the error behind them.
    """
    expected = is_transient(error)
    level = logging.WARNING if expected else logging.ERROR
    logger.log(level, text, *arguments, error, exc_info=not expected and error)


@dataclass(slots=True)
class Backoff:
    """How long a loop waits after failures in a row: from `first` doubling to `ceiling` seconds.

    `failures` counts them, so a loop can log the first one and the recovery instead of every pass.
    """

    first: float = 0.25
    ceiling: float = 1.0
    failures: int = 0

    def failed(self) -> float:
        """Count a failure; the seconds to wait before the next try."""
        self.failures += 1
        return min(self.first * 2.0 ** min(self.failures - 1, 30), self.ceiling)

    def succeeded(self) -> int:
        """Reset; the number of failures that went before."""
        failures, self.failures = self.failures, 0
        return failures
