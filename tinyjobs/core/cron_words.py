"""A cron expression in plain English, for whoever reads a list of schedules. Correct for every valid expression.

It knows what the fields of a `Cron` mean and nothing of time zones: the zone is said beside the sentence.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise, product

from tinyjobs.core.cron import Cron

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# More times of the day, or more numbers at one distance, are said by their rule.
_LONGEST_LIST = 6


def describe(cron: Cron) -> str:
    """When it fires, without a capital and a full stop: "at 02:30 on Monday and Friday in January"."""
    frequency = _frequency(cron)
    every_day = "" if frequency else " every day"
    return f"{frequency or _times(cron)}{_days(cron, every_day)}"


def _frequency(cron: Cron) -> str | None:
    """The hours and minutes, if they go on all day long."""
    if not cron.follows_clock:
        return None
    if len(cron.hours) < 24:
        step = _step(cron.hours)
        return f"every {step} hours" if cron.minutes == (0,) and step and 24 % step == 0 else None
    if cron.minutes == (0,):
        return "every hour"
    return _every_minutes(cron.minutes) or f"at {_minutes(cron.minutes)} of every hour"


def _times(cron: Cron) -> str:
    """The hours and minutes as times of the day."""
    minutes, hours = cron.minutes, cron.hours
    if len(hours) * len(minutes) <= _LONGEST_LIST:
        return f"at {_listed(f'{hour:02}:{minute:02}' for hour, minute in product(hours, minutes))}"
    between = f"from {hours[0]:02}:{minutes[0]:02} to {hours[-1]:02}:{minutes[-1]:02}"
    step = _step(hours)
    if len(minutes) == 1 and step:
        return f"every hour {between}" if step == 1 else f"every {step} hours {between}"
    frequency = _every_minutes(minutes)
    if frequency and (len(hours) == 1 or step == 1):
        return f"{frequency} {between}"
    return f"{frequency} in {_hours(hours)}" if frequency else f"at {_minutes(minutes)} of {_hours(hours)}"


def _days(cron: Cron, every_day: str) -> str:
    """The dates, weekdays and months; `every_day` is what stands for all dates."""
    all_dates, all_weekdays, all_months = len(cron.days) == 31, len(cron.weekdays) == 7, len(cron.months) == 12
    months = _with_runs([_MONTHS[month - 1] for month in cron.months], cron.months)
    in_months = "" if all_months else f" {'from' if len(months) == 1 < len(cron.months) else 'in'} {_listed(months)}"
    if (all_dates or all_weekdays) if cron.either_day else (all_dates and all_weekdays):
        return f"{every_day}{in_months}"
    weekdays = sorted((day - 1) % 7 for day in cron.weekdays)
    names = [_WEEKDAYS[day] for day in weekdays]
    if cron.either_day:
        return f" on {_dates(cron.days)} and on every {_listed(names)}{in_months}"
    if all_dates:
        return f" on {_listed(_with_runs(names, weekdays))}{in_months}"
    dates = f" on {_dates(cron.days)} of {'every month' if all_months else _listed(months)}"
    return dates if all_weekdays else f"{dates} if it is a {_listed(names, 'or')}"


def _every_minutes(minutes: Sequence[int]) -> str | None:
    """The rhythm of minutes that divide the hour evenly."""
    step = _step(minutes)
    if step is None or minutes[0] != 0 or len(minutes) * step != 60:
        return None
    return "every minute" if step == 1 else f"every {step} minutes"


def _minutes(minutes: Sequence[int]) -> str:
    return _numbered("minute", minutes, [str(minute) for minute in minutes])


def _hours(hours: Sequence[int]) -> str:
    return _numbered("hour", hours, [f"{hour:02}" for hour in hours])


def _dates(days: Sequence[int]) -> str:
    step = _step(days)
    if step and step > 1 and len(days) > _LONGEST_LIST:
        return f"every {_ordinal(step)} day from the {_ordinal(days[0])} to the {_ordinal(days[-1])}"
    return f"the {_listed(_with_runs([_ordinal(day) for day in days], days))}"


def _numbered(unit: str, values: Sequence[int], names: Sequence[str]) -> str:
    """Numbers of an hour or of a day: "minute 5", "hours 01 to 04 and 09", "every 2nd minute from 1 to 59"."""
    step = _step(values)
    if step and step > 1 and len(values) > _LONGEST_LIST:
        return f"every {_ordinal(step)} {unit} from {names[0]} to {names[-1]}"
    return f"{unit}{'' if len(values) == 1 else 's'} {_listed(_with_runs(names, values))}"


def _step(values: Sequence[int]) -> int | None:
    """The distance between neighbours, if there are two or more and it is always the same."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def _with_runs(names: Sequence[str], values: Sequence[int]) -> list[str]:
    """The names of ascending values, three or more in a row as "first to last"."""
    runs: list[list[str]] = []
    for index, name in enumerate(names):
        if index and values[index] == values[index - 1] + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else run)]


def _listed(names: Iterable[str], conjunction: str = "and") -> str:
    *most, last = names
    return f"{', '.join(most)} {conjunction} {last}" if most else last


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
