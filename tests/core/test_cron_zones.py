"""Cron where clocks change, against a reference that walks the minutes, and by what has to hold of every day."""

import random
from collections import Counter
from datetime import date, timedelta
from itertools import pairwise, takewhile

import pytest

from tests.core.instants import local, utc
from tests.core.reference import ZONES, days_of_change, random_expression
from tinyjobs.core.cron import Cron, zone_of

PAIRS_PER_ZONE = 2_000


@pytest.mark.parametrize("zone", ZONES)
def test_next_firing_is_what_the_minutes_say(zone):
    rng = random.Random(f"pairs of {zone}")
    rules = zone_of(zone)
    pairs = decided_close_by = 0
    while pairs < PAIRS_PER_ZONE:
        days = rng.choice(days_of_change(zone))
        expression = random_expression(rng, near=local(days.around, zone).hour)
        if not expression.can_fire:
            continue
        cron, firings = Cron.parse(expression.text), days.firings(expression)
        for instant in some_instants(rng, days, firings):
            pairs += 1
            found = cron.next_after(instant, rules)
            expected = next((firing for firing in firings if firing > instant), None)
            if expected is None:
                assert found >= days.end, (expression.text, instant)
            else:
                assert found == expected, (expression.text, instant)
                decided_close_by += abs(expected - days.around) < 3 * 3600
    assert decided_close_by > PAIRS_PER_ZONE / 10, "too few of them have anything to do with the change"


def some_instants(rng, days, firings):
    first = days.around - 24 * 3600
    candidates = [firing for firing in firings if firing > first] or [days.around]
    return [
        rng.uniform(first, days.end),
        days.around + rng.uniform(-3, 3) * 3600,
        float(days.around + rng.randint(-180, 180) * 60),
        rng.choice(candidates) - rng.choice((0, 1, 0.25)),
    ]


@pytest.mark.parametrize("zone", ZONES)
def test_firings_in_a_row_leave_none_out_and_repeat_none(zone):
    rng = random.Random(f"rows of {zone}")
    for _ in range(60):
        days = rng.choice(days_of_change(zone))
        expression = random_expression(rng, near=local(days.around, zone).hour)
        if not expression.can_fire:
            continue
        first = days.around - 5 * 3600
        expected = [firing for firing in days.firings(expression) if firing > first][:400]
        found = Cron.parse(expression.text).upcoming(first, zone_of(zone), max(len(expected), 1))
        assert all(later > earlier for earlier, later in pairwise(found)), expression.text
        assert [firing for firing in found if firing < days.end] == expected, expression.text


def year_of(cron, zone, year):
    end = utc(f"{year + 1}-01-02T12:00")
    firings = takewhile(
        lambda firing: firing < end, Cron.parse(cron).firings_after(utc(f"{year - 1}-12-30T12:00"), zone)
    )
    return list(firings)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("year", [2011, 2023, 2026])
@pytest.mark.parametrize("time", ["0 0", "15 0", "30 1", "0 2", "15 2", "59 2", "0 3", "30 23"])
def test_a_fixed_time_comes_once_on_each_day(zone, year, time):
    firings = [local(firing, zone) for firing in year_of(f"{time} * * *", zone_of(zone), year)]
    per_day = Counter(wall.date() for wall in firings)
    first_day = date(year, 1, 1)
    for day in (first_day + timedelta(days=number) for number in range(365)):
        expected = 1
        if zone == "Pacific/Apia" and day == date(2011, 12, 30):
            expected = 0  # there was no such day
        elif zone == "Pacific/Apia" and day == date(2011, 12, 31) and time != "0 0":
            expected = 2  # the run of the day that never was comes at its first instant
        assert per_day[day] == expected, day
    minute, hour = map(int, time.split())
    on_time = sum((wall.hour, wall.minute) == (hour, minute) for wall in firings)
    assert on_time >= len(firings) - 4, "only a change of the clock moves a fixed time"


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("expression", "seconds"), [("*/10 * * * *", 600), ("*/30 * * * *", 1800), ("* * * * *", 60)])
def test_a_frequency_keeps_its_interval_through_every_change(zone, expression, seconds):
    cron = Cron.parse(expression)
    for days in days_of_change(zone):
        firings = cron.upcoming(days.around - 6 * 3600, zone_of(zone), 12 * 3600 // seconds)
        assert {later - earlier for earlier, later in pairwise(firings)} == {seconds}


@pytest.mark.parametrize("zone", sorted(set(ZONES) - {"Australia/Lord_Howe", "Asia/Kathmandu"}))
def test_an_hourly_schedule_runs_every_elapsed_hour(zone):
    cron = Cron.parse("@hourly")
    for days in days_of_change(zone):
        firings = cron.upcoming(days.around - 24 * 3600, zone_of(zone), 48)
        assert {later - earlier for earlier, later in pairwise(firings)} == {3600}
