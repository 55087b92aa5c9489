"""Every exception a caller can meet, in one place.

Messages are written for the person who reads them: what was wrong, where it came from, what to do about it.
Stores translate their driver's errors into the `StoreError` family, so no other floor knows a driver.
"""

from collections.abc import Mapping
from typing import Any, Self


class TinyJobsError(Exception):
    """Base of everything tinyjobs raises on purpose."""


class ConfigurationError(TinyJobsError, ValueError):
    """A setting, URL, option or file that cannot work. The message names its source and the remedy."""


class SerializationError(TinyJobsError, TypeError):
    """A value that cannot be stored and brought back the same, or stored bytes that cannot be read back."""


class ResultError(SerializationError):
    """A job's return value could not be stored. The function already ran, so this is never retried."""


class UnencodableResult(ResultError):
    """The codec refuses the return value."""


class ResultTooLarge(ResultError):
    """The encoded return value is larger than `max_result_bytes`."""


class UnknownTaskError(TinyJobsError, LookupError):
    """A job names a task that this process does not register."""


class JobNotFoundError(TinyJobsError, LookupError):
    """The store has no job of that id."""


class ScheduleNotFoundError(TinyJobsError, LookupError):
    """Neither the store nor the code has a schedule of that name."""


class UnsupportedCapabilityError(TinyJobsError):
    """The store cannot do what was asked, or the feature is not part of this release."""


class SynchronousCallInsideEventLoopError(TinyJobsError, RuntimeError):
    """A blocking call was made on a thread whose event loop is running; the message names the awaitable."""


class AppClosedError(TinyJobsError, RuntimeError):
    """The app was closed; `start()` or `ready()` opens it again. Or the program is ending, and a thread was needed."""


class JobCancelled(TinyJobsError):
    """The error a cancelled job is reported with where an exception is expected."""


class WorkerLost(TinyJobsError):
    """The error of an attempt whose worker vanished before it could report."""


class JobExpired(JobCancelled):
    """The error of a job that had not started by its `expires=`, and so was never run."""


class JobTimeout(TinyJobsError, TimeoutError):
    """The attempt ran longer than its `timeout=`."""

    @classmethod
    def after(cls, seconds: float) -> Self:
        """The error of an attempt whose timeout was that long."""
        return cls(f"ran longer than its timeout of {seconds:g} s")


class WaitTimeout(TinyJobsError, TimeoutError):
    """`job.wait(timeout=…)` or `job.awaited(timeout=…)`: the job has not ended by then. It goes on."""


class StoreError(TinyJobsError):
    """The store answered with an error. `__cause__` holds the driver's own."""


class StoreBusyError(StoreError):
    """Contention: another writer held what was needed for as long as we were willing to wait. Safe to try again."""


class StoreUnavailableError(StoreError):
    """Outage: the store could not be reached, or the connection broke. Whether a write landed is not known."""


class DataRefusedError(StoreError):
    """The store refuses these very values; trying again cannot help."""


class NewerStoreError(StoreError):
    """The store was written by a release whose layout this one cannot work on. Upgrade the package."""


class StoreReplacedError(StoreError):
    """Another store stands where the one in use was. This process has to be started again."""


class SchemaMissingError(StoreError):
    """The tables are not there yet, or are older than this release needs."""


def refuse_unknown(given: Mapping[str, Any], known: frozenset[str], source: str) -> None:
    """Raise `ConfigurationError` naming each key of `given` that is not in `known`, and what is accepted."""
    unknown = sorted(set(given) - known)
    if unknown:
        names = ", ".join(repr(name) for name in unknown)
        raise ConfigurationError(f"{source} does not take {names}. It takes: {', '.join(sorted(known))}.")
