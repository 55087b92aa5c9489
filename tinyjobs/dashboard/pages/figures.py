"""What ended by the minute, as charts and queues need it: every span of an hour or a day, the empty ones too."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinyjobs.core.inline import finish
from tinyjobs.core.watching import Tally, add_up
from tinyjobs.dashboard.services import Desk

HOUR, DAY = 3_600.0, 86_400.0
#: How long the spans of a chart are: those of a day are as long as a store keeps them apart.
MINUTE, QUARTER = 60.0, 900.0


def tallies(desk: Desk, now: float, reach: float = DAY) -> list[Tally] | None:
    """What the store has kept, back to `reach` seconds before `now`; None: it keeps none."""
    if not desk.capabilities.tallies:
        return None
    return finish(desk.store.tallies(now - reach))


def spans(kept: Sequence[Tally], now: float, reach: float, seconds: float) -> list[dict[str, Any]]:
    """Every span of `seconds` from `now - reach` on, oldest first, over all queues."""
    start = (now - reach) // seconds * seconds + seconds
    lately = [replace(tally, queue="") for tally in kept if tally.start >= start]
    known = {tally.start: tally for tally in add_up(lately, start, seconds)}
    count = round(reach / seconds)
    starts = [start + place * seconds for place in range(count)]
    return [_span(known.get(place) or Tally(start=place, seconds=seconds, queue="")) for place in starts]


def by_queue(kept: Sequence[Tally], now: float, reach: float) -> dict[str, dict[str, Any]]:
    """What ended in each queue since `now - reach`, as one span."""
    lately = [tally for tally in kept if tally.start >= now - reach - MINUTE]
    return {tally.queue: _span(tally) for tally in add_up(lately, now - reach - MINUTE, reach + 2 * MINUTE)}


def _span(tally: Tally) -> dict[str, Any]:
    attempts = tally.attempts
    return {
        "start": tally.start,
        "seconds": tally.seconds,
        "succeeded": tally.succeeded,
        "unsuccessful": tally.unsuccessful,
        "cancelled": tally.cancelled,
        "mean_wait": tally.waited / attempts if attempts else None,
        "mean_run": tally.ran / attempts if attempts else None,
        "longest_wait": tally.longest_wait if attempts else None,
        "longest_run": tally.longest_run if attempts else None,
    }
