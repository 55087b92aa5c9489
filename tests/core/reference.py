"""A second opinion on cron and changing clocks, which shares no code with the package and does it the slow way.

It walks the minutes of a few days in UTC, reads what the clock on the wall shows at each, and notes what was skipped
and what was seen before. Random expressions are made together with the sets of numbers they stand for, so nothing here
reads an expression.
"""

import random
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

ZONES = (
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "Pacific/Apia",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "UTC",
)
MINUTE = timedelta(minutes=1)
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]


@dataclass
class Expression:
    """An expression and what it stands for. A field that begins with a star is in `starred`."""

    text: str
    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    starred: set[str]

    def matches(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        by_date, by_weekday = wall.day in self.days, (wall.weekday() + 1) % 7 in self.weekdays
        return by_date and by_weekday if self.starred & {"days", "weekdays"} else by_date or by_weekday

    @property
    def can_fire(self) -> bool:
        if not self.starred & {"days", "weekdays"}:
            return True
        return any(min(self.days) <= monthrange(2000, month)[1] for month in self.months)


def random_expression(rng: random.Random, near: int) -> Expression:
    """Mostly one that fires within days; its hours are often those around `near`."""
    minutes = _field(rng, range(60), ["*", "*/10", "*/7"], some=0.7)
    hours = _field(
        rng, range(24), ["*", "*/2", "*/5"], some=0.65, near=[(near + shift) % 24 for shift in (-2, -1, 0, 1, 2)]
    )
    days = _field(rng, range(1, 32), ["*", "*", "*", "*/2"], some=0.15)
    months = _field(rng, range(1, 13), ["*", "*", "*", "*/2"], some=0.05, names=MONTHS)
    weekdays = _field(rng, range(8), ["*", "*", "*", "*/3"], some=0.15, names=WEEKDAYS)
    fields = {"minutes": minutes, "hours": hours, "days": days, "months": months, "weekdays": weekdays}
    text = " ".join(written for written, _ in fields.values())
    values = {name: numbers for name, (_, numbers) in fields.items()}
    values["weekdays"] = {day % 7 for day in values["weekdays"]}
    return Expression(text, starred={name for name, (written, _) in fields.items() if written[0] == "*"}, **values)


def _field(rng, span, stars, *, some, near=(), names=()):
    if rng.random() >= some:
        star = rng.choice(stars)
        return star, set(span[:: int(star.partition("/")[2] or 1)])
    items = [_item(rng, span, near, names) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return ",".join(text for text, _ in items), set().union(*(numbers for _, numbers in items))


def _item(rng, span, near, names):
    first = rng.choice(near) if near and rng.random() < 0.7 else rng.choice(span)
    kind = rng.random()
    if kind < 0.6:
        if names and rng.random() < 0.5 and first - span[0] < len(names):
            return rng.choice((str.lower, str.upper, str))(names[first - span[0]]), {first}
        return rng.choice((f"{first}", f"{first:02}")), {first}
    last = rng.randint(first, span[-1])
    if kind < 0.8:
        return f"{first}-{last}", set(range(first, last + 1))
    step = rng.randint(1, span[-1])
    return f"{first}-{last}/{step}", set(range(first, last + 1, step))


class Days:
    """Four days of a zone around an instant, minute by minute."""

    def __init__(self, zone: str, around: datetime) -> None:
        self.around = around.timestamp()
        moment = around - timedelta(hours=36)
        self.minutes: list[tuple[float, datetime, bool, list[datetime]]] = []
        latest = _wall(moment - MINUTE, zone)
        while moment < around + timedelta(hours=60):
            wall = _wall(moment, zone)
            skipped = [latest + MINUTE * number for number in range(1, (wall - latest) // MINUTE)]
            self.minutes.append((moment.timestamp(), wall, wall > latest, skipped))
            latest = max(wall, latest)
            moment += MINUTE
        self.end = moment.timestamp()

    def firings(self, expression: Expression) -> list[float]:
        """Every instant at which it fires."""
        return [
            instant
            for instant, wall, unseen, skipped in self.minutes
            if (expression.matches(wall) and (unseen or "hours" in expression.starred))
            or ("hours" not in expression.starred and any(map(expression.matches, skipped)))
        ]


def _wall(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)


@cache
def days_of_change(zone: str) -> list[Days]:
    """Days around changes of its clock since 2005; of a zone that has none, some ordinary days."""
    rng = random.Random(f"days of {zone}")
    changes = list(_changes(zone))
    if len(changes) < 2:
        start = datetime(2005, 1, 1, tzinfo=UTC)
        return [Days(zone, start + timedelta(days=rng.randrange(9_000))) for _ in range(3)]
    odd = [change for change in changes if zone == "Pacific/Apia" and change.year == 2011 and change.month == 12]
    return [Days(zone, change) for change in odd + rng.sample(changes, 8)]


def _changes(zone: str) -> Iterator[datetime]:
    """The minutes, in UTC, from which the clock is ahead or behind by something else."""
    moment = datetime(2005, 1, 1, tzinfo=UTC)
    while moment.year < 2037:
        following = moment + timedelta(hours=6)
        if _ahead(moment, zone) != _ahead(following, zone):
            yield next(
                minute
                for minute in (moment + MINUTE * number for number in range(1, 361))
                if _ahead(minute, zone) != _ahead(moment, zone)
            )
        moment = following


def _ahead(moment: datetime, zone: str) -> timedelta:
    return _wall(moment, zone) - moment.replace(tzinfo=None)
