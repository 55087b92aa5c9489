"""Instants as people write them, and how much work a call does."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from tinyjobs.core.cron import Cron, zone_of


def utc(text: str) -> float:
    """Unix seconds of an ISO time in UTC: "2026-03-29T01:00"."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def shown(instant: float) -> str:
    """The way back, to the minute."""
    moment = datetime.fromtimestamp(instant, UTC)
    assert moment.second == moment.microsecond == 0
    return moment.strftime("%Y-%m-%dT%H:%M")


def local(instant: float, zone: str) -> datetime:
    return datetime.fromtimestamp(instant, ZoneInfo(zone)).replace(tzinfo=None)


def runs(expression: str, zone: str, after: str, count: int) -> list[str]:
    """The next `count` firings in UTC, each asked for by itself."""
    cron, rules, instant, found = Cron.parse(expression), zone_of(zone), utc(after), []
    for _ in range(count):
        instant = cron.next_after(instant, rules)
        found.append(shown(instant))
    return found


def calls_made_by(function: Callable[[], object]) -> int:
    """How many functions it calls, Python's and C's: a measure of work that needs no clock."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls
