"""What becomes of firings that are due, late or missed, and of a schedule after the clock has stepped."""

import random
from datetime import UTC
from itertools import pairwise, takewhile

import pytest

from tests.core.instants import calls_made_by, local, shown, utc
from tinyjobs.core.cron import NEVER, Cron, zone_of
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.firing import MISFIRE_GRACE, MOST_AT_ONCE, Firing, Misfire, firing_due

QUARTERS = Cron.parse("*/15 * * * *")
MINUTELY = Cron.parse("* * * * *")
HOURLY = Cron.parse("@hourly")
ALL_POLICIES = list(Misfire)


def due(next_run_at, now, cron=QUARTERS, misfire=Misfire.SKIP, zone=UTC, **options):
    return firing_due(utc(next_run_at), utc(now), cron, zone, misfire, **options)


def jobs(firing):
    return [shown(instant) for instant in firing.instants]


@pytest.mark.parametrize("misfire", ALL_POLICIES)
def test_nothing_is_due_before_its_time(misfire):
    assert due("2026-05-01T09:00", "2026-05-01T08:59:59.999", misfire=misfire) is None


@pytest.mark.parametrize("misfire", ALL_POLICIES)
@pytest.mark.parametrize("now", ["09:00", "09:00:00.001", "09:00:59", "09:01:00"])
def test_a_firing_within_the_grace_is_on_time_under_every_policy(misfire, now):
    assert due("2026-05-01T09:00", f"2026-05-01T{now}", misfire=misfire) == Firing(
        instants=(utc("2026-05-01T09:00"),), next_run_at=utc("2026-05-01T09:15")
    )


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [(Misfire.SKIP, []), (Misfire.RUN_ONCE, ["2026-05-01T09:00"]), (Misfire.RUN_ALL, ["2026-05-01T09:00"])],
)
def test_a_firing_later_than_the_grace_is_missed(misfire, expected):
    firing = due("2026-05-01T09:00", "2026-05-01T09:01:00.001", misfire=misfire)
    assert jobs(firing) == expected
    assert shown(firing.next_run_at) == "2026-05-01T09:15"
    assert firing.missed_since == (None if expected else utc("2026-05-01T09:00"))


EIGHT = [f"2026-05-01T{hour}:{minute}" for hour in ("09", "10") for minute in ("00", "15", "30", "45")]


@pytest.mark.parametrize(
    ("misfire", "expected"), [(Misfire.SKIP, []), (Misfire.RUN_ONCE, [EIGHT[-1]]), (Misfire.RUN_ALL, EIGHT)]
)
def test_two_hours_without_a_scheduler(misfire, expected):
    firing = due("2026-05-01T09:00", "2026-05-01T10:59", misfire=misfire)
    assert jobs(firing) == expected
    assert shown(firing.next_run_at) == "2026-05-01T11:00"


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        (Misfire.SKIP, ["2026-05-01T11:00"]),
        (Misfire.RUN_ONCE, ["2026-05-01T11:00"]),
        (Misfire.RUN_ALL, [*EIGHT, "2026-05-01T11:00"]),
    ],
)
def test_a_restart_seconds_after_a_firing_still_runs_it_and_that_is_the_catch_up(misfire, expected):
    firing = due("2026-05-01T09:00", "2026-05-01T11:00:20", misfire=misfire)
    assert jobs(firing) == expected
    assert shown(firing.next_run_at) == "2026-05-01T11:15"
    assert firing.missed_since == (None if misfire is Misfire.RUN_ALL else utc("2026-05-01T09:00"))


def test_the_grace_is_the_callers():
    assert jobs(due("2026-05-01T09:00", "2026-05-01T09:10", grace=600.0)) == ["2026-05-01T09:00"]
    assert jobs(due("2026-05-01T09:00", "2026-05-01T09:10", grace=599.0)) == []
    assert jobs(due("2026-05-01T09:00", "2026-05-01T09:00:01", grace=0.0)) == []
    assert jobs(due("2026-05-01T09:00", "2026-05-01T09:00", grace=0.0)) == ["2026-05-01T09:00"]


@pytest.mark.parametrize("misfire", [Misfire.SKIP, Misfire.RUN_ONCE])
def test_all_that_a_long_grace_covers_is_on_time(misfire):
    firing = due("2026-05-01T09:00", "2026-05-01T09:32", misfire=misfire, grace=1200.0)
    assert jobs(firing) == ["2026-05-01T09:15", "2026-05-01T09:30"]
    assert firing.missed_since == utc("2026-05-01T09:00")


@pytest.mark.parametrize(("misfire", "most"), [(Misfire.SKIP, 1), (Misfire.RUN_ONCE, 1), (Misfire.RUN_ALL, 31)])
@pytest.mark.parametrize("second", [7, 59.9])
def test_half_an_hour_of_minutes_is_no_flood_unless_asked_for(misfire, most, second):
    now = utc("2026-05-01T09:30") + second
    firing = firing_due(utc("2026-05-01T09:00"), now, MINUTELY, UTC, misfire)
    assert len(firing.instants) == most
    # Then the normal rhythm: one for each minute.
    for minute in range(31, 40):
        firing = firing_due(firing.next_run_at, utc(f"2026-05-01T09:{minute}") + 0.5, MINUTELY, UTC, misfire)
        assert jobs(firing) == [f"2026-05-01T09:{minute}"]


def test_a_restart_exactly_on_a_firing_has_the_one_at_the_edge_of_the_grace_as_well():
    assert jobs(due("2026-05-01T09:00", "2026-05-01T09:30", MINUTELY)) == ["2026-05-01T09:29", "2026-05-01T09:30"]


def test_run_all_works_a_long_outage_off_over_consecutive_ticks():
    stands, now = utc("2026-05-01T09:00"), utc("2026-05-02T01:00")
    created = []
    while (firing := firing_due(stands, now, MINUTELY, UTC, Misfire.RUN_ALL)) is not None:
        assert 0 < len(firing.instants) <= MOST_AT_ONCE
        assert firing.missed_since is None
        created.append(firing.instants)
        stands = firing.next_run_at
        now += 0.2
    assert [len(batch) for batch in created] == [100] * 9 + [61]
    flat = [instant for batch in created for instant in batch]
    assert flat == [utc("2026-05-01T09:00") + 60 * number for number in range(961)]
    assert stands == utc("2026-05-02T01:01")


@pytest.mark.parametrize("misfire", ALL_POLICIES)
def test_years_without_a_scheduler_take_little_work(misfire):
    def ask():
        return due("2016-05-01T09:00", "2026-05-01T09:02:30.5", Cron.parse("*/5 * * * *"), misfire)

    assert calls_made_by(ask) < 60 * (MOST_AT_ONCE + 1 if misfire is Misfire.RUN_ALL else 50)
    assert ask().next_run_at == utc("2016-05-01T17:20" if misfire is Misfire.RUN_ALL else "2026-05-01T09:05")


def test_the_one_catch_up_stands_for_the_latest_of_the_missed():
    daily = Cron.parse("30 2 * * *")
    firing = due("2016-05-01T02:30", "2026-05-01T09:00", daily, Misfire.RUN_ONCE)
    assert jobs(firing) == ["2026-05-01T02:30"]
    assert firing.missed_since == utc("2016-05-01T02:30")
    leap = due("2020-02-29T00:00", "2026-05-01T09:00", Cron.parse("0 0 29 2 *"), Misfire.RUN_ONCE)
    assert (jobs(leap), shown(leap.next_run_at)) == (["2024-02-29T00:00"], "2028-02-29T00:00")


def test_an_outage_across_a_change_of_the_clock():
    berlin, daily = zone_of("Europe/Berlin"), Cron.parse("30 2 * * *")
    firing = due("2026-03-28T01:30", "2026-03-30T09:00", daily, Misfire.RUN_ALL, berlin)
    assert jobs(firing) == ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]
    assert shown(firing.next_run_at) == "2026-03-31T00:30"


@pytest.mark.parametrize("misfire", ALL_POLICIES)
def test_a_new_schedule_starts_with_its_next_time(misfire):
    daily = Cron.parse("0 8 * * *")
    for start, first in (("2026-05-01T07:59", "2026-05-01T08:00"), ("2026-05-01T09:00", "2026-05-02T08:00")):
        stands = daily.next_after(utc(start), UTC)
        assert shown(stands) == first
        assert firing_due(stands, utc(start), daily, UTC, misfire) is None
        assert firing_due(stands, stands - 0.001, daily, UTC, misfire) is None
        assert jobs(firing_due(stands, stands, daily, UTC, misfire)) == [first]


def test_another_scheduler_goes_on_where_the_first_one_stood():
    # The first one died at minute 14; whoever is there at minute 15 fires, and does not begin to count anew.
    stands = QUARTERS.next_after(utc("2026-05-01T09:00"), UTC)
    assert firing_due(stands, utc("2026-05-01T09:14"), QUARTERS, UTC, Misfire.SKIP) is None
    assert jobs(firing_due(stands, utc("2026-05-01T09:15") + 5, QUARTERS, UTC, Misfire.SKIP)) == ["2026-05-01T09:15"]


@pytest.mark.parametrize("misfire", ALL_POLICIES)
def test_what_has_fired_does_not_fire_again_within_its_grace(misfire):
    fired = due("2026-05-01T09:00", "2026-05-01T09:00:05", misfire=misfire)
    for second in range(5, 61):
        assert firing_due(fired.next_run_at, utc("2026-05-01T09:00") + second, QUARTERS, UTC, misfire) is None


def test_schedules_of_two_zones_fire_at_their_own_local_times_whoever_ticks():
    start = utc("2026-05-01T00:00")
    for zone in ("America/New_York", "Pacific/Auckland"):
        rules, daily = zone_of(zone), Cron.parse("30 6 * * *")
        stands, created = daily.next_after(start, rules), []
        for now in range(int(start), int(start) + 48 * 3600, 30):
            if firing := firing_due(stands, float(now), daily, rules, Misfire.SKIP):
                created += firing.instants
                stands = firing.next_run_at
        assert [local(instant, zone).strftime("%H:%M") for instant in created] == ["06:30", "06:30"]


# --- the clock steps ----------------------------------------------------------------------------------------------


def test_back_by_an_hour_moves_the_schedule_to_its_next_time_from_now():
    assert due("2026-05-01T09:15", "2026-05-01T08:10") == Firing(next_run_at=utc("2026-05-01T08:15"))
    # From now, also where the next time is within the grace.
    assert due("2026-05-01T09:15", "2026-05-01T08:14:30") == Firing(next_run_at=utc("2026-05-01T08:15"))


def test_back_by_days_and_from_a_time_that_was_never_right():
    for stands in ("2026-05-04T09:00", "2126-05-01T00:00", "2026-05-01T09:07"):
        firing = due(stands, "2026-05-01T08:10")
        assert (jobs(firing), shown(firing.next_run_at)) == ([], "2026-05-01T08:15")
    assert firing_due(1e17, utc("2026-05-01T08:10"), QUARTERS, UTC, Misfire.SKIP) == Firing(
        next_run_at=utc("2026-05-01T08:15")
    )


@pytest.mark.parametrize("misfire", ALL_POLICIES)
def test_a_realigned_schedule_asks_for_nothing_more(misfire):
    now = utc("2026-05-01T08:10")
    firing = firing_due(utc("2026-05-01T09:15"), now, QUARTERS, UTC, misfire)
    assert firing.missed_since is None
    assert firing_due(firing.next_run_at, now, QUARTERS, UTC, misfire) is None


@pytest.mark.parametrize("behind", [0.001, 1.0, 30.0, 59.999])
def test_clocks_that_disagree_by_less_than_the_grace_are_no_step(behind):
    for cron in (MINUTELY, QUARTERS, HOURLY):
        for second in (0.0, 0.5, 17.0, 59.99):
            ahead = utc("2026-05-01T08:59") + second
            stands = cron.next_after(ahead, UTC)
            assert firing_due(stands, ahead - behind, cron, UTC, Misfire.SKIP) is None


def test_the_grace_is_the_tolerance_of_a_step():
    # At 08:59:00 the hourly schedule may stand at 10:00, for with the grace it is 09:00; a second before it may not.
    assert due("2026-05-01T10:00", "2026-05-01T08:59", HOURLY) is None
    assert due("2026-05-01T10:00", "2026-05-01T08:58:59", HOURLY) == Firing(next_run_at=utc("2026-05-01T09:00"))
    assert due("2026-05-01T10:00", "2026-05-01T08:50", HOURLY, grace=600.0) is None


@pytest.mark.parametrize("misfire", ALL_POLICIES)
def test_forward_by_an_hour_is_an_outage(misfire):
    firing = due("2026-05-01T09:15", "2026-05-01T10:14", misfire=misfire)
    assert (
        jobs(firing)
        == {
            Misfire.SKIP: [],
            Misfire.RUN_ONCE: ["2026-05-01T10:00"],
            Misfire.RUN_ALL: ["2026-05-01T09:15", "2026-05-01T09:30", "2026-05-01T09:45", "2026-05-01T10:00"],
        }[misfire]
    )


def test_forward_and_back_again_fires_nothing_twice():
    # Forward by a day, one tick, and back: the schedule goes on from the right time, and 09:15 comes once.
    ahead = due("2026-05-01T09:15", "2026-05-02T09:10")
    back = firing_due(ahead.next_run_at, utc("2026-05-01T09:10"), QUARTERS, UTC, Misfire.SKIP)
    assert back == Firing(next_run_at=utc("2026-05-01T09:15"))


@pytest.mark.parametrize("misfire", ALL_POLICIES)
@pytest.mark.parametrize("now", [0.0, 1_777_000_000.0, 2.0**61, NEVER, NEVER * 2])
def test_a_paused_schedule_is_left_alone_whatever_the_clock_says(misfire, now):
    assert firing_due(NEVER, now, QUARTERS, UTC, misfire) is None


def test_never_survives_a_store_that_keeps_floats_or_whole_numbers():
    assert NEVER == 2**62 == float(2**62) == int(NEVER)


# --- whenever somebody ticks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("misfire", ALL_POLICIES)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.parametrize("expression", ["*/20 * * * *", "30 2 * * *", "0,40 1-3 * * *"])
def test_ticks_at_any_time_with_outages_between(misfire, zone, expression):
    """What each policy promises, over weeks around a change of the clock."""
    rng, rules, cron = random.Random(f"{misfire} {zone} {expression}"), zone_of(zone), Cron.parse(expression)
    start = now = utc("2026-03-20T12:00") + rng.uniform(0, 3600)
    stands, created, missed = cron.next_after(now, rules), [], 0
    while now < start + 40 * 86_400:
        now += rng.choice((5, 55, 300, 4_000, 90_000, 400_000)) * rng.random()
        while firing := firing_due(stands, now, cron, rules, misfire):
            assert firing.next_run_at > stands
            late = sum(instant < now - MISFIRE_GRACE for instant in firing.instants)
            assert misfire is Misfire.RUN_ALL or late <= (misfire is Misfire.RUN_ONCE)
            assert misfire is Misfire.SKIP or firing.instants
            missed += firing.missed_since is not None
            created += firing.instants
            stands = firing.next_run_at
        assert stands > now
    every = list(takewhile(lambda instant: instant <= now, cron.firings_after(start, rules)))
    assert all(later > earlier for earlier, later in pairwise(created))
    assert set(created) <= set(every)
    assert (created == every) is (misfire is Misfire.RUN_ALL)
    assert (missed > 3) is (misfire is not Misfire.RUN_ALL)


def test_policies_are_read_by_name():
    assert [Misfire.parse(name) for name in ("skip", "run_once", "run_all")] == ALL_POLICIES
    assert Misfire.parse(Misfire.SKIP) is Misfire.SKIP


@pytest.mark.parametrize("value", ["SKIP", "", "all", None, True, 1, ["skip"]])
def test_a_policy_that_is_none_is_refused(value):
    with pytest.raises(ConfigurationError, match=r"is no policy: it is one of 'skip', 'run_once', 'run_all'\."):
        Misfire.parse(value)
