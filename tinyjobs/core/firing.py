"""What becomes of a schedule's firings that are due, late or missed. Pure: it reads no clock and no store.

A scheduler asks with what the store holds, and applies the answer by compare and swap. A firing is missed when it is
more than the grace late; one at most that late is on time, under every policy.
"""

from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum
from math import inf, nextafter
from typing import Final

from tinyjobs.core.cron import NEVER, Cron
from tinyjobs.core.errors import ConfigurationError

#: Seconds by which a firing may be late and still be on time.
MISFIRE_GRACE: Final = 60.0
#: The most jobs one schedule gets at once. What is left comes with the next tick.
MOST_AT_ONCE: Final = 100


class Misfire(StrEnum):
    """What becomes of missed firings: none of them runs, one run stands for all, or each of them runs."""

    SKIP = "skip"
    RUN_ONCE = "run_once"
    RUN_ALL = "run_all"

    @classmethod
    def parse(cls, value: object) -> "Misfire":
        """The policy of that name; `ConfigurationError` says which there are."""
        if isinstance(value, str) and value in list(cls):
            return cls(value)
        raise ConfigurationError(
            f"misfire {value!r:.100} is no policy: it is one of {', '.join(map(repr, map(str, cls)))}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """What to do to a schedule: a job for each instant it stands for, oldest first, and where it stands then.

    Instants are unix seconds. `instants` is empty when the schedule only moves. `next_run_at` may be past already, when
    more jobs are due than one tick creates. `missed_since`: the earliest of the firings that get no job, or None.
    """

    instants: tuple[float, ...] = ()
    next_run_at: float
    missed_since: float | None = None


def firing_due(
    next_run_at: float, now: float, cron: Cron, zone: tzinfo, misfire: Misfire, grace: float = MISFIRE_GRACE
) -> Firing | None:
    """What a schedule that the store holds at `next_run_at` asks for at `now`. None: nothing.

    A schedule at `NEVER` is paused and asks for nothing. One that stands later than its rule allows was left there by a
    clock that has stepped back since; it moves to its next time from now.
    """
    if next_run_at >= NEVER:
        return None
    if next_run_at > now:
        too_late = next_run_at > now + grace and next_run_at > cron.next_after(now + grace, zone)
        return Firing(next_run_at=cron.next_after(now, zone)) if too_late else None
    first = next_run_at
    if next_run_at < now - grace and misfire is not Misfire.RUN_ALL:
        # A firing exactly as late as the grace is on time, and `next_after` looks strictly later.
        first = cron.next_after(nextafter(now - grace, -inf), zone)
        if first > now and misfire is Misfire.RUN_ONCE:
            first = _latest(next_run_at, now, cron, zone)
    return _from(first, now, cron, zone, missed_since=None if first == next_run_at else next_run_at)


def _from(first: float, now: float, cron: Cron, zone: tzinfo, missed_since: float | None) -> Firing:
    """The firings from `first` to `now`, as many as one tick creates."""
    instants: list[float] = []
    instant = first
    while instant <= now and len(instants) < MOST_AT_ONCE:
        instants.append(instant)
        instant = cron.next_after(instant, zone)
    return Firing(instants=tuple(instants), next_run_at=instant, missed_since=missed_since)


def _latest(due: float, now: float, cron: Cron, zone: tzinfo) -> float:
    """The latest firing until `now`, from `due` on; found by halving, as an outage may hold a million of them."""
    latest, beyond = due, now
    while beyond - latest > 1:
        middle = (latest + beyond) / 2
        if (found := cron.next_after(middle, zone)) <= now:
            latest = found
        else:
            beyond = middle
    return latest
