"""Cron expressions: what the five fields mean, and when they come next in a time zone.

Pure: instants are handed in, as unix seconds. It knows no store, no task and no clock, and does not decide what becomes
of a firing that was missed; that is `firing`. The next firing is computed field by field, so one that is years away
costs as little as one that is minutes away.

Fields are minute, hour, day of the month, month and weekday (0 and 7 are Sunday), each `*` or a list of numbers,
ranges `a-b` and steps `*/n` or `a-b/n`. A step belongs to a range: `5/15` is refused, as by Vixie cron. Months and
weekdays may be named by their first three letters, and a range of weekdays may end in `sun`. Where Vixie cron asks
whether a field is a star, it looks at the first character alone, and so does this module: `*/2` is a star as well. That
decides two things.

- If neither day field begins with a star, a day that matches either of them will do. Otherwise it has to match both.
- If the hour begins with a star, the schedule is about frequency and follows the clock: what the clock skips does not
  run, and what it repeats runs twice. Any other schedule is about times of the day: one that the clock skips comes at
  the first instant after the gap, and one that it repeats comes once, at the first of the two.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from math import floor
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.sentences import said_by, say

#: Unix seconds that never come: the next firing of a paused schedule, or of one that has none left.
NEVER: Final = float(2**62)

MACROS: Final[Mapping[str, str]] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

# What is "wall" or "UTC" below is a datetime without a zone, so that arithmetic on it is plain.
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)
_NO_OFFSET = timedelta(0)
# Every zone can show these years; a leap day on a given weekday recurs within forty years.
_FIRST_INSTANT = (_EPOCH.replace(year=2) - _EPOCH).total_seconds()
_LAST_INSTANT = (_EPOCH.replace(year=9999) - _EPOCH).total_seconds() - 1
_LAST_YEAR = 9998


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    words: Mapping[str, int]

    @property
    def allowed(self) -> str:
        words = list(self.words)
        if not words:
            return say("%(low)s to %(high)s", low=self.low, high=self.high)
        return say(
            "%(low)s to %(high)s or %(first)s to %(last)s",
            low=self.low,
            high=self.high,
            first=words[0],
            last=words[-1],
        )


_FIELDS = (
    _Field(say("minute"), 0, 59, {}),
    _Field(say("hour"), 0, 23, {}),
    _Field(say("day of the month"), 1, 31, {}),
    _Field(say("month"), 1, 12, {name: number for number, name in enumerate(MONTH_NAMES, 1)}),
    _Field(say("weekday"), 0, 7, {name: number for number, name in enumerate(WEEKDAY_NAMES)}),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression. Two with the same fields are equal, however they are written.

    The fields hold ascending numbers; Sunday is 0. `either_day`: a day that matches `days` or `weekdays` will do,
    instead of both. `follows_clock`: the hour is a star, see the module. `text`: as it was written, with single spaces.
    """

    text: str = field(compare=False)
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    either_day: bool
    follows_clock: bool

    @classmethod
    def parse(cls, text: object) -> "Cron":
        """Read an expression or a macro. `ConfigurationError` names the field, its value, and what it takes."""
        if not isinstance(text, str):
            raise ConfigurationError(f"cron {text!r:.100} is no text, such as '*/15 * * * *' or '@daily'.")
        written = " ".join(text.split())
        parts = _parts(written)
        minutes, hours, days, months, weekdays = (
            _values(part, kind, written) for part, kind in zip(parts, _FIELDS, strict=True)
        )
        cron = cls(
            text=written,
            minutes=minutes,
            hours=hours,
            days=days,
            months=months,
            weekdays=tuple(sorted({day % 7 for day in weekdays})),
            either_day=not parts[2].startswith("*") and not parts[4].startswith("*"),
            follows_clock=parts[1].startswith("*"),
        )
        if not cron.either_day and all(days[0] > _month_length(2000, month) for month in months):
            raise ConfigurationError(
                say(
                    "cron %(cron)s never fires: day of the month %(day)s does not exist in month %(month)s.",
                    cron=f"{written!r:.100}",
                    day=f"{parts[2]!r:.40}",
                    month=f"{parts[3]!r:.40}",
                )
            )
        return cron

    def __str__(self) -> str:
        return self.text

    def next_after(self, instant: float, zone: tzinfo) -> float:
        """The first firing strictly later than `instant`, both in unix seconds; `NEVER` from the year 9999 on."""
        if instant >= _LAST_INSTANT:
            return NEVER
        here = _EPOCH + timedelta(seconds=floor(max(instant, _FIRST_INSTANT)))
        local = here.replace(tzinfo=UTC).astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        start = wall.replace(second=0) + _MINUTE
        before, after = _offsets(wall, zone)
        if before > after:
            return self._next_in_repeat(start, here, bool(local.fold), zone)
        return self._first_from(start, zone)

    def upcoming(self, instant: float, zone: tzinfo, count: int) -> list[float]:
        """The next `count` firings after `instant`, ascending; fewer only at the end of the year 9998."""
        return list(islice(self.firings_after(instant, zone), count))

    def firings_after(self, instant: float, zone: tzinfo) -> Iterator[float]:
        """Every firing after `instant`, ascending, as far as one is asked for."""
        while (instant := self.next_after(instant, zone)) < NEVER:
            yield instant

    def _first_from(self, start: datetime, zone: tzinfo) -> float:
        """The first firing whose wall time is `start` or later, for a `start` whose first pass is not over."""
        while (wall := self._wall_from(start)) is not None:
            before, after = _offsets(wall, zone)
            if before >= after:
                return _seconds(wall - before)
            opens = _change(wall - after, wall - before, zone)
            if not self.follows_clock:
                return _seconds(opens)
            start = _whole_minute(opens + after)
        return NEVER

    def _next_in_repeat(self, start: datetime, here: datetime, second_pass: bool, zone: tzinfo) -> float:
        """The first firing from wall time `start` on, while the clock at `here` (UTC) shows what it shows twice."""
        before, after = _offsets(start - _MINUTE, zone)
        length = before - after
        change = _change(here - length, here, zone) if second_pass else _change(here, here + length, zone)
        end = change + before
        if not self.follows_clock:
            return self._first_from(_whole_minute(end) if second_pass else start, zone)
        if not second_pass:
            if (wall := self._wall_from(start)) is not None and wall < end:
                return _seconds(wall - before)
            start = _whole_minute(change + after)
        if (wall := self._wall_from(start)) is not None and wall < end:
            return _seconds(wall - after)
        return self._first_from(_whole_minute(end), zone)

    def _wall_from(self, start: datetime) -> datetime | None:
        """The first wall time, at `start` or later, that all five fields match. None: not before the year 9999."""
        day = self._date_from(start.date())
        if day == start.date():
            if start.hour in self.hours and start.minute <= self.minutes[-1]:
                return start.replace(minute=self.minutes[bisect_left(self.minutes, start.minute)])
            later = bisect_right(self.hours, start.hour)
            if later < len(self.hours):
                return start.replace(hour=self.hours[later], minute=self.minutes[0])
            day = self._date_from(start.date() + timedelta(days=1))
        return None if day is None else datetime.combine(day, time(self.hours[0], self.minutes[0]))

    def _date_from(self, start: date) -> date | None:
        for year in range(start.year, _LAST_YEAR + 1):
            for month in self.months:
                if (year, month) < (start.year, start.month):
                    continue
                first = start.day if (year, month) == (start.year, start.month) else 1
                if found := self._day_from(year, month, first):
                    return date(year, month, found)
        return None

    def _day_from(self, year: int, month: int, first: int) -> int | None:
        length = _month_length(year, month)
        day_before_month = date(year, month, 1).isoweekday() - 1
        if self.either_day:
            for day in range(first, length + 1):
                if day in self.days or (day_before_month + day) % 7 in self.weekdays:
                    return day
            return None
        for day in self.days[bisect_left(self.days, first) :]:
            if day <= length and (day_before_month + day) % 7 in self.weekdays:
                return day
        return None


def zone_of(name: object) -> tzinfo:
    """The rules of an IANA time zone, kept once loaded. "UTC" needs no database of time zones, any other name does.

    `ConfigurationError` says what is wrong with the name, and which one was probably meant.
    """
    if not isinstance(name, str):
        raise ConfigurationError(f"timezone {name!r:.100} is no name of a time zone, such as 'Europe/Berlin' or 'UTC'.")
    return UTC if name == "UTC" else _zone(name)


# Parts of a name begin with a capital, which leaves out paths, and the files beside the zones that are none or count
# leap seconds. "Factory" is what a machine has that was never set up.
_ZONE_NAME = re.compile(r"(?!Factory$)[A-Z][A-Za-z0-9_+-]{0,63}(/[A-Z][A-Za-z0-9_+-]{0,63}){0,3}", re.ASCII)


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    if _ZONE_NAME.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass  # what the database has to say of it ends below, with a better guess
    raise ConfigurationError(
        say("timezone %(name)s is not known. %(remedy)s", name=f"{name!r:.100}", remedy=_remedy(name))
    )


def _remedy(name: str) -> str:
    from difflib import get_close_matches

    known = {zone.lower(): zone for zone in available_timezones() if _ZONE_NAME.fullmatch(zone)}
    if not known:
        return say("This machine has no database of time zones: install the package tzdata, or use 'UTC'.")
    known_by_city = {zone.rpartition("/")[2]: zone for zone in sorted(known)}
    wanted = name.strip().lower().replace(" ", "_")[:100]
    guesses = [wanted]
    if len(wanted) > 4:  # among abbreviations the closest is mostly another zone
        guesses += get_close_matches(wanted, known, 1, 0.7) + get_close_matches(wanted, known_by_city, 1, 0.7)
    for guess in guesses:
        if zone := known.get(guess) or known.get(known_by_city.get(guess, "")):
            return say("Did you mean %(name)s?", name=repr(zone))
    return say("Give a name of the IANA database, such as 'Europe/Berlin' or 'UTC'.")


def _parts(written: str) -> list[str]:
    if written.startswith("@"):
        if (expression := MACROS.get(written.lower())) is None:
            text = f"{written!r:.100}"
            raise ConfigurationError(
                say("cron %(cron)s is no macro. There are %(macros)s.", cron=text, macros=", ".join(MACROS))
            )
        return expression.split()
    parts = written.split()
    if len(parts) != len(_FIELDS):
        text = f"{written!r:.100}"
        if len(parts) == 1:
            raise ConfigurationError(
                say(
                    "cron %(cron)s has 1 field instead of five: minute, hour, day of the month, month, weekday.",
                    cron=text,
                )
            )
        raise ConfigurationError(
            say(
                "cron %(cron)s has %(count)s fields instead of five: minute, hour, day of the month, month, weekday.",
                cron=text,
                count=len(parts),
            )
        )
    return parts


def _values(part: str, kind: _Field, written: str) -> tuple[int, ...]:
    """The numbers that one field names, ascending."""
    values: set[int] = set()
    for item in part.split(","):
        try:
            values.update(_range(item, kind))
        except ValueError as error:
            raise ConfigurationError(
                say(
                    "cron %(cron)s: %(field)s %(item)s %(fault)s",
                    cron=f"{written!r:.100}",
                    field=kind.name,
                    item=f"{item!r:.40}",
                    fault=said_by(error),
                )
            ) from None
    return tuple(sorted(values))


def _range(item: str, kind: _Field) -> range:
    span, slash, step = item.partition("/")
    first, dash, last = span.partition("-")
    if slash and not _is_number(step, 1, kind.high):
        raise ValueError(say("has a step that is none: a step is a number from 1 to %(most)s.", most=kind.high))
    every = int(step) if slash else 1
    if span == "*":
        return range(kind.low, kind.high + 1, every)
    low = _number(first, kind)
    high = _number(last, kind) if dash else low
    if slash and not dash:
        raise ValueError(
            say(
                "is a step without a range: write '%(low)s-%(high)s/%(step)s', or '%(low)s' if that is meant.",
                low=low,
                high=kind.high,
                step=every,
            )
        )
    if high < low and last.lower() == "sun":
        high = 7
    if high < low:
        raise ValueError(
            say(
                "runs backwards: write it as two ranges, '%(low)s-%(most)s,%(least)s-%(high)s'.",
                low=low,
                most=kind.high,
                least=kind.low,
                high=high,
            )
        )
    return range(low, high + 1, every)


def _number(text: str, kind: _Field) -> int:
    if text.lower() in kind.words:
        return kind.words[text.lower()]
    if not _is_number(text, kind.low, kind.high):
        raise ValueError(
            say("cannot be: it takes %(allowed)s, lists, ranges, and steps such as '*/2'.", allowed=kind.allowed)
        )
    return int(text)


def _is_number(text: str, low: int, high: int) -> bool:
    return re.fullmatch("[0-9]{1,4}", text) is not None and low <= int(text) <= high


def _month_length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _offsets(wall: datetime, zone: tzinfo) -> tuple[timedelta, timedelta]:
    """What a wall time is ahead of UTC by the rules before and after a change. More before: the clock shows it twice.
    More after: it never does. Else there is no change at that time, and they are the same."""
    local = wall.replace(tzinfo=zone)
    return local.utcoffset() or _NO_OFFSET, local.replace(fold=1).utcoffset() or _NO_OFFSET


def _change(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    """The instant from which another offset holds than at `low`: after that, at `high` at the latest. All are UTC."""
    before = low.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if middle.replace(tzinfo=UTC).astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def _whole_minute(wall: datetime) -> datetime:
    # Changes of long ago were not always on the minute.
    return wall if wall.second == 0 else wall.replace(second=0) + _MINUTE


def _seconds(utc: datetime) -> float:
    return (utc - _EPOCH).total_seconds()
