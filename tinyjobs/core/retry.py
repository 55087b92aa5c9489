"""Whether and when a failed attempt runs again. Pure: the random factor and the instant are handed in.

`Retry` and `Abandon` are the two ways a task itself overrules its policy.
"""

import importlib
import math
import sys
from collections.abc import Callable
from datetime import datetime, timedelta

from tinyjobs.core.errors import ConfigurationError, TinyJobsError
from tinyjobs.core.job import Job
from tinyjobs.core.options import LAST_INSTANT, TaskOptions, check_run_at, shown

#: What a backoff without a cap is held to: a year.
LONGEST_DELAY = 365 * 86_400.0


class Retry(TinyJobsError):
    """Raised by a task: try again at a time of its choosing, as long as attempts are left.

    Give `in_` (seconds or timedelta) or `at` (aware datetime); with neither, at once.
    """

    def __init__(self, reason: str = "", *, in_: float | timedelta | None = None, at: datetime | None = None) -> None:
        if in_ is not None and at is not None:
            raise ConfigurationError("Retry: give in_ or at, not both.")
        super().__init__(reason or "the task asked to be tried again")
        seconds = in_.total_seconds() if isinstance(in_, timedelta) else in_
        if seconds is not None and not _is_finite(seconds):
            raise ConfigurationError(f"Retry: in_={shown(in_)} is no finite number of seconds, nor a timedelta.")
        self.seconds = None if seconds is None else max(float(seconds), 0.0)
        self.instant = None if at is None else check_run_at(at, "Retry: at")

    def due(self, now: float) -> float:
        """The instant it asks for."""
        if self.instant is not None:
            return self.instant
        return min(now + (self.seconds or 0.0), LAST_INSTANT)


def _is_finite(seconds: object) -> bool:
    # Compared, not converted: a large enough whole number cannot become a float.
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return False
    return abs(seconds) <= sys.float_info.max


class Abandon(TinyJobsError):
    """Raised by a task: fail for good now, whatever attempts are left."""


def retry_at(options: TaskOptions, job: Job, error: BaseException, now: float, factor: float) -> float | None:
    """When the job runs again after `error`, or None when it has failed for good.

    `factor` is a random number from 0.5 to 1.0, used when jitter is on.
    """
    if isinstance(error, Abandon) or job.attempts >= job.max_attempts:
        return None
    if isinstance(error, Retry):
        return error.due(now)
    if not isinstance(error, resolve_retry_on(options)):
        return None
    delay = backoff_delay(options, job.attempts)
    return min(now + (delay * factor if options.retry_jitter else delay), LAST_INSTANT)


def backoff_delay(options: TaskOptions, attempt: int) -> float:
    """Seconds to wait after attempt number `attempt` (from 1), before jitter. Never raises for a large attempt."""
    if options.retry_backoff == "fixed":
        return min(options.retry_base, options.retry_max)
    if options.retry_backoff == "exponential":
        # The exponent is bounded before the power is taken: 2.0 ** 1024 overflows.
        return min(options.retry_base * 2.0 ** min(attempt - 1, 500), options.retry_max, LONGEST_DELAY)
    delay = float(_callable_backoff(options)(attempt))
    return min(max(delay, 0.0), LONGEST_DELAY) if math.isfinite(delay) else LONGEST_DELAY


def resolve_retry_on(options: TaskOptions) -> tuple[type[BaseException], ...]:
    """The classes of `retry_on`, dotted paths imported. Declared by the project's own code, never by a job."""
    return tuple(_import_exception(entry) if isinstance(entry, str) else entry for entry in options.retry_on)


def _callable_backoff(options: TaskOptions) -> Callable[[int], float]:
    found = options.retry_backoff
    resolved = _import_path(found, "retry_backoff") if isinstance(found, str) else found
    if not callable(resolved):
        raise ConfigurationError(f"retry_backoff: {found!r} is not a function of the attempt number.")
    return resolved


def _import_exception(path: str) -> type[BaseException]:
    found = _import_path(path, "retry_on")
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        raise ConfigurationError(f"retry_on: {path!r} is not an exception class.")
    return found


def _import_path(path: str, option: str) -> object:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module or "builtins"), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{option}: {path!r} cannot be imported: {error}") from error
