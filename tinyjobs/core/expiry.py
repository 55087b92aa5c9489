"""When a job that has not started is not to start any more: `expires=`, as it was asked for and as the job keeps it.

Nothing here knows who ends the job then.
"""

from dataclasses import dataclass
from typing import Any

from tinyjobs.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Expiry:
    """Either `seconds` from the enqueue on, or the instant `at` in unix seconds."""

    seconds: float | None = None
    at: float | None = None

    def fields(self, now: float) -> dict[str, Any]:
        """What a job sent at `now` gets, by the names of its fields."""
        return {"expires_at": self.at if self.seconds is None else now + self.seconds, "expires_in": self.seconds}


def expiry_fields(asked: Expiry | None, usual: float | None, now: float) -> dict[str, Any]:
    """The fields of a job sent at `now`, from what its enqueue asked for or else the task's usual seconds."""
    if asked is not None:
        return asked.fields(now)
    return {} if usual is None else Expiry(seconds=usual).fields(now)


# Seconds between two readings of the clock in one call, and less than anybody needs to start a job.
_ONE_CALL = 0.01


def refuse_hopeless(
    run_at: float, expires_at: float | None, now: float, source: str, delay: float | None = None
) -> None:
    """Raise for a job that will have expired before it may start: a mistake that is better heard of now.

    `delay`: the seconds that were asked for, if they were. An instant may have been counted from a moment before `now`.
    """
    if expires_at is None or run_at <= now:
        return
    starts_in = delay or run_at - now
    if expires_at - now < starts_in + _ONE_CALL:
        raise ConfigurationError(
            f"{source}: expires: the job may start in {round(starts_in, 2):g} s, and will have expired by then. "
            f"Seconds count from the enqueue. Give a later expiry, or send the job to run sooner."
        )
