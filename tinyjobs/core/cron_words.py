"""A cron expression in plain English, for whoever reads a list of schedules. Correct for every valid expression.

It knows what the fields of a `Cron` mean and nothing of time zones: the zone is said beside the sentence. Nor does it
know other languages: it gives a `Sentence` made of phrases that can be translated one by one.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise, product

from tinyjobs.core.cron import Cron
from tinyjobs.core.sentences import Sentence, join, say

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# More times of the day, or more numbers at one distance, are said by their rule.
_LONGEST_LIST = 6


def describe(cron: Cron) -> Sentence:
    """When it fires, without a capital and a full stop: "at 02:30 on Monday and Friday in January"."""
    frequency = _frequency(cron)
    return join([frequency or _times(cron), *_days(cron, is_said=frequency is None)], " ")


def _frequency(cron: Cron) -> Sentence | None:
    """The hours and minutes, if they go on all day long."""
    if not cron.follows_clock:
        return None
    if len(cron.hours) < 24:
        step = _step(cron.hours)
        return _every_hours(step) if cron.minutes == (0,) and step and 24 % step == 0 else None
    if cron.minutes == (0,):
        return _every_hours(1)
    return _every_minutes(cron.minutes) or join([_at_minutes(cron.minutes), say("of every hour")], " ")


def _times(cron: Cron) -> Sentence:
    """The hours and minutes as times of the day."""
    minutes, hours = cron.minutes, cron.hours
    if len(hours) * len(minutes) <= _LONGEST_LIST:
        times = [Sentence(f"{hour:02}:{minute:02}") for hour, minute in product(hours, minutes)]
        return say("at %(times)s", times=_listed(times))
    first, last = f"{hours[0]:02}:{minutes[0]:02}", f"{hours[-1]:02}:{minutes[-1]:02}"
    between = say("from %(first)s to %(last)s", first=first, last=last)
    step = _step(hours)
    if len(minutes) == 1 and step:
        return join([_every_hours(step), between], " ")
    frequency = _every_minutes(minutes)
    if frequency and (len(hours) == 1 or step == 1):
        return join([frequency, between], " ")
    return (
        join([frequency, _in_hours(hours)], " ") if frequency else join([_at_minutes(minutes), _of_hours(hours)], " ")
    )


def _days(cron: Cron, *, is_said: bool) -> list[Sentence]:
    """The dates, weekdays and months; `is_said`: so are all dates."""
    all_dates, all_weekdays, all_months = len(cron.days) == 31, len(cron.weekdays) == 7, len(cron.months) == 12
    in_months = [] if all_months else [_in_months(cron.months)]
    if (all_dates or all_weekdays) if cron.either_day else (all_dates and all_weekdays):
        return [say("every day"), *in_months] if is_said else in_months
    weekdays = sorted((day - 1) % 7 for day in cron.weekdays)
    names = [say(WEEKDAYS[day]) for day in weekdays]
    if cron.either_day:
        return [_on_dates(cron.days), say("and on every %(weekdays)s", weekdays=_listed(names)), *in_months]
    if all_dates:
        return [_on_weekdays(names, weekdays), *in_months]
    of_months = say("of every month") if all_months else say("of %(months)s", months=_months(cron.months))
    dates = [_on_dates(cron.days), of_months]
    return dates if all_weekdays else [*dates, say("if it is a %(weekdays)s", weekdays=_listed(names, _or))]


def _in_months(months: Sequence[int]) -> Sentence:
    if len(months) > 2 and _step(months) == 1:
        first, last = say(MONTHS[months[0] - 1]), say(MONTHS[months[-1] - 1])
        return say("from %(first_month)s to %(last_month)s", first_month=first, last_month=last)
    return say("in %(months)s", months=_months(months))


def _months(months: Sequence[int]) -> Sentence:
    return _listed(_with_runs([say(MONTHS[month - 1]) for month in months], months))


def _on_weekdays(names: Sequence[Sentence], weekdays: Sequence[int]) -> Sentence:
    if len(names) > 2 and _step(weekdays) == 1:
        return say("on %(first_day)s to %(last_day)s", first_day=names[0], last_day=names[-1])
    return say("on %(weekdays)s", weekdays=_listed(_with_runs(names, weekdays)))


def _on_dates(days: Sequence[int]) -> Sentence:
    if step := _rule(days):
        first, last = _ordinal(days[0]), _ordinal(days[-1])
        return say("on every %(nth)s day from the %(first)s to the %(last)s", nth=step, first=first, last=last)
    return say("on the %(days)s", days=_listed(_with_runs([_ordinal(day) for day in days], days)))


def _every_hours(step: int) -> Sentence:
    return say("every hour") if step == 1 else say("every %(step)s hours", step=step)


def _every_minutes(minutes: Sequence[int]) -> Sentence | None:
    """The rhythm of minutes that divide the hour evenly."""
    step = _step(minutes)
    if step is None or minutes[0] != 0 or len(minutes) * step != 60:
        return None
    return say("every minute") if step == 1 else say("every %(step)s minutes", step=step)


def _at_minutes(minutes: Sequence[int]) -> Sentence:
    if step := _rule(minutes):
        first, last = minutes[0], minutes[-1]
        return say("at every %(nth)s minute from %(first)s to %(last)s", nth=step, first=first, last=last)
    listed = _listed(_with_runs([Sentence(str(minute)) for minute in minutes], minutes))
    return (
        say("at minute %(minutes)s", minutes=listed)
        if len(minutes) == 1
        else say("at minutes %(minutes)s", minutes=listed)
    )


def _of_hours(hours: Sequence[int]) -> Sentence:
    if step := _rule(hours):
        first, last = f"{hours[0]:02}", f"{hours[-1]:02}"
        return say("of every %(nth)s hour from %(first)s to %(last)s", nth=step, first=first, last=last)
    listed = _hours(hours)
    return say("of hour %(hours)s", hours=listed) if len(hours) == 1 else say("of hours %(hours)s", hours=listed)


def _in_hours(hours: Sequence[int]) -> Sentence:
    """Of two or more: what happens in one hour goes from one time to another."""
    if step := _rule(hours):
        first, last = f"{hours[0]:02}", f"{hours[-1]:02}"
        return say("in every %(nth)s hour from %(first)s to %(last)s", nth=step, first=first, last=last)
    return say("in hours %(hours)s", hours=_hours(hours))


def _hours(hours: Sequence[int]) -> Sentence:
    """Hours by their numbers: "01 to 04 and 09"."""
    return _listed(_with_runs([Sentence(f"{hour:02}") for hour in hours], hours))


def _rule(values: Sequence[int]) -> Sentence | None:
    """The distance between neighbours as an ordinal, where that says more than a list."""
    step = _step(values)
    return _ordinal(step) if step and step > 1 and len(values) > _LONGEST_LIST else None


def _step(values: Sequence[int]) -> int | None:
    """The distance between neighbours, if there are two or more and it is always the same."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def _with_runs(names: Sequence[Sentence], values: Sequence[int]) -> list[Sentence]:
    """The names of ascending values, three or more in a row as "first to last"."""
    runs: list[list[Sentence]] = []
    for index, name in enumerate(names):
        if index and values[index] == values[index - 1] + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [part for run in runs for part in ([_to(run[0], run[-1])] if len(run) > 2 else run)]


def _to(first: Sentence, last: Sentence) -> Sentence:
    return say("%(first)s to %(last)s", first=first, last=last)


def _and(names: Sentence, last: Sentence) -> Sentence:
    return say("%(names)s and %(last)s", names=names, last=last)


def _or(names: Sentence, last: Sentence) -> Sentence:
    return say("%(names)s or %(last)s", names=names, last=last)


def _listed(names: Sequence[Sentence], conjoined: Callable[[Sentence, Sentence], Sentence] = _and) -> Sentence:
    *most, last = names
    return conjoined(join(most), last) if most else last


def _ordinal(number: int) -> Sentence:
    match 0 if number in (11, 12, 13) else number % 10:
        case 1:
            return say("%(number)sst", number=number)
        case 2:
            return say("%(number)snd", number=number)
        case 3:
            return say("%(number)srd", number=number)
    return say("%(number)sth", number=number)
