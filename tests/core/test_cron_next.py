"""The next firing in cases that have gone wrong elsewhere, in places with odd clocks, and far away."""

import gc
import subprocess
import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tests.core.instants import calls_made_by, local, runs, shown, utc
from tinyjobs.core.cron import NEVER, Cron, zone_of
from tinyjobs.core.errors import ConfigurationError


def test_a_time_in_the_spring_gap_comes_at_the_first_instant_after_it():
    assert runs("30 2 * * *", "Europe/Berlin", "2026-03-28T01:30", 3) == [
        "2026-03-29T01:00",
        "2026-03-30T00:30",
        "2026-03-31T00:30",
    ]


def test_several_times_in_one_gap_come_once_and_together():
    assert runs("0,20,40 2,3 * * *", "Europe/Berlin", "2026-03-29T00:59", 3) == [
        "2026-03-29T01:00",
        "2026-03-29T01:20",
        "2026-03-29T01:40",
    ]
    assert runs("* 2 * * *", "Europe/Berlin", "2026-03-29T00:00", 2) == ["2026-03-29T01:00", "2026-03-30T00:00"]


def test_later_times_of_the_day_of_change_keep_their_local_hour():
    assert runs("4 16 * * *", "America/New_York", "2025-03-08T21:04", 2) == ["2025-03-09T20:04", "2025-03-10T20:04"]


def test_a_fixed_time_in_the_repeated_hour_comes_once_at_the_first():
    assert runs("30 1 * * *", "US/Pacific", "2026-10-31T08:30", 2) == ["2026-11-01T08:30", "2026-11-02T09:30"]
    # Also for a scheduler that starts between the two, or in the second.
    assert runs("30 1 * * *", "US/Pacific", "2026-11-01T08:45", 1) == ["2026-11-02T09:30"]
    assert runs("30 1 * * *", "US/Pacific", "2026-11-01T09:15", 1) == ["2026-11-02T09:30"]


def test_an_hourly_schedule_runs_in_both_of_the_repeated_hours():
    assert runs("0 * * * *", "US/Pacific", "2026-11-01T08:00", 2) == ["2026-11-01T09:00", "2026-11-01T10:00"]
    midnight = utc("2026-11-01T06:59")
    day = [
        run
        for run in Cron.parse("0 * * * *").upcoming(midnight, zone_of("US/Pacific"), 30)
        if run < midnight + 25 * 3600
    ]
    assert len(day) == 25


def test_an_hour_that_the_gap_removes_does_not_run():
    assert runs("15 * * * *", "Europe/Berlin", "2026-03-29T00:00", 3) == [
        "2026-03-29T00:15",
        "2026-03-29T01:15",
        "2026-03-29T02:15",
    ]
    assert runs("0 */2 * * *", "Europe/Berlin", "2026-03-28T23:00", 1) == [
        "2026-03-29T02:00"
    ]  # 04:00, there is no 02:00


def test_a_frequency_comes_back_to_the_minutes_that_are_repeated():
    # 02:50 of the first pass is followed by 02:00 of the second, which is earlier on the wall.
    assert runs("0,50 * * * *", "Europe/Berlin", "2026-10-25T00:10", 4) == [
        "2026-10-25T00:50",
        "2026-10-25T01:00",
        "2026-10-25T01:50",
        "2026-10-25T02:00",
    ]
    # One whose only minute was before: found in the second pass, although the first pass has none left.
    assert runs("5 * 25 10 *", "Europe/Berlin", "2026-10-25T00:06", 2) == ["2026-10-25T01:05", "2026-10-25T02:05"]


def test_daily_midnight_stays_at_midnight():
    assert runs("0 0 * * *", "Europe/Warsaw", "2017-03-25T23:00", 2) == ["2017-03-26T22:00", "2017-03-27T22:00"]


def test_a_zone_far_from_utc():
    assert runs("25 8-16 * * *", "Asia/Jakarta", "2026-05-01T00:00", 2) == ["2026-05-01T01:25", "2026-05-01T02:25"]
    assert runs("25 8-16 * * *", "Asia/Jakarta", "2026-05-01T09:25", 1) == ["2026-05-02T01:25"]


def test_two_restricted_day_fields_are_a_union():
    assert runs("0 0 31 2 0", "UTC", "2026-01-31T12:00", 4) == [f"2026-02-{day:02}T00:00" for day in (1, 8, 15, 22)]
    assert runs("15 16 12 12 3", "UTC", "2026-11-30T12:00", 6) == [
        f"2026-12-{day:02}T16:15" for day in (2, 9, 12, 16, 23, 30)
    ]


def test_a_day_field_that_begins_with_a_star_narrows_the_other():
    assert runs("0 0 1-7 * */7", "UTC", "2026-01-01T00:00", 3) == [
        "2026-01-04T00:00",
        "2026-02-01T00:00",
        "2026-03-01T00:00",
    ]
    assert runs("0 0 */2 * 1", "UTC", "2026-06-01T00:00", 2) == ["2026-06-15T00:00", "2026-06-29T00:00"]


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # Half an hour: 02:00 becomes 02:30.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T14:00", ["2026-10-03T15:30", "2026-10-04T15:15"]),
        ("*/20 * * * *", "Australia/Lord_Howe", "2026-10-03T15:10", ["2026-10-03T15:40", "2026-10-03T16:00"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", ["2026-04-04T14:45", "2026-04-05T15:15"]),
        # Two hours: 01:00 becomes 03:00, and 03:00 becomes 01:00.
        ("30 1,2 * * *", "Antarctica/Troll", "2026-03-29T00:00", ["2026-03-29T01:00", "2026-03-29T23:30"]),
        ("0 2 * * *", "Antarctica/Troll", "2026-10-24T22:00", ["2026-10-25T00:00", "2026-10-26T02:00"]),
        ("0 * 25 10 *", "Antarctica/Troll", "2026-10-25T00:00", ["2026-10-25T01:00", "2026-10-25T02:00"]),
        # At midnight: the day begins at 01:00.
        ("0 0 * * *", "Africa/Cairo", "2023-04-27T12:00", ["2023-04-27T22:00", "2023-04-28T21:00"]),
        ("30 0 * * 5", "Africa/Cairo", "2023-04-27T12:00", ["2023-04-27T22:00", "2023-05-04T21:30"]),
        ("0 0 * * *", "America/Santiago", "2026-09-05T12:00", ["2026-09-06T04:00", "2026-09-07T03:00"]),
        # At midnight: the last hour of the day is repeated.
        ("30 23 * * *", "America/Santiago", "2026-04-04T12:00", ["2026-04-05T02:30", "2026-04-06T03:30"]),
        ("0 0 * * *", "America/Santiago", "2026-04-04T12:00", ["2026-04-05T04:00", "2026-04-06T04:00"]),
        # Forward by an hour at the end of Ramadan, back at its beginning.
        ("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00", ["2026-02-15T01:30", "2026-02-16T02:30"]),
        ("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00", ["2026-03-22T02:00", "2026-03-23T01:30"]),
        # There was no 30 December: its run comes at the first instant after it.
        ("0 3 * * *", "Pacific/Apia", "2011-12-29T14:00", ["2011-12-30T10:00", "2011-12-30T13:00", "2011-12-31T13:00"]),
        ("0 0 * * *", "Pacific/Apia", "2011-12-29T11:00", ["2011-12-30T10:00", "2011-12-31T10:00"]),
        ("0 3 30 12 *", "Pacific/Apia", "2011-06-01T00:00", ["2011-12-30T10:00", "2012-12-29T13:00"]),
        ("0 */6 30,31 12 *", "Pacific/Apia", "2011-12-01T00:00", ["2011-12-30T10:00", "2011-12-30T16:00"]),
        ("30 12 * * *", "Asia/Kathmandu", "2026-01-01T00:00", ["2026-01-01T06:45", "2026-01-02T06:45"]),
    ],
)
def test_odd_clocks(expression, zone, after, expected):
    assert runs(expression, zone, after, len(expected)) == expected


@pytest.mark.parametrize("part", [0.0, 0.001, 29.5, 59.999])
def test_strictly_later_to_the_fraction_of_a_second(part):
    cron, due = Cron.parse("* * * * *"), utc("2026-01-01T00:01")
    assert cron.next_after(due - 60 + part, UTC) == due
    assert cron.next_after(-120 + part, UTC) == -60.0


def test_wall_times_before_railway_time_are_exact_to_the_second():
    berlin = zone_of("Europe/Berlin")  # ahead by 53 minutes and 28 seconds until April 1893
    instant = Cron.parse("0 12 * * *").next_after(datetime(1890, 5, 1, tzinfo=UTC).timestamp(), berlin)
    assert datetime.fromtimestamp(instant, UTC).isoformat() == "1890-05-01T11:06:32+00:00"


def test_a_gap_that_ends_within_a_minute():
    berlin = zone_of("Europe/Berlin")  # in April 1893 midnight became 00:06:32
    change = datetime(1893, 3, 31, 23, 6, 32, tzinfo=UTC).timestamp()
    follows = [local(instant, "Europe/Berlin") for instant in Cron.parse("* * * * *").upcoming(change - 90, berlin, 3)]
    assert [wall.strftime("%H:%M:%S") for wall in follows] == ["23:59:00", "00:07:00", "00:08:00"]
    assert Cron.parse("3 0 * * *").next_after(change - 90, berlin) == change


def test_upcoming_is_next_after_again_and_again():
    cron, berlin = Cron.parse("30 2 * * *"), zone_of("Europe/Berlin")
    found = cron.upcoming(utc("2026-03-28T01:30"), berlin, 2)
    assert [shown(instant) for instant in found] == ["2026-03-29T01:00", "2026-03-30T00:30"]
    assert cron.upcoming(utc("2026-03-28T01:30"), berlin, 0) == []


def test_the_end_of_the_calendar_is_never_and_its_beginning_no_error():
    cron = Cron.parse("@yearly")
    for zone in (UTC, zone_of("Pacific/Kiritimati"), zone_of("America/Los_Angeles")):
        assert cron.next_after(utc("9998-06-01T00:00"), zone) == NEVER
        for instant in (1e300, float("inf"), NEVER):
            assert cron.next_after(instant, zone) == NEVER
        assert cron.next_after(-1e300, zone) < utc("0004-01-01T00:00")
    assert cron.upcoming(utc("9996-06-01T00:00"), UTC, 5) == [utc("9997-01-01T00:00"), utc("9998-01-01T00:00")]


FAR_AWAY = [
    ("0 0 29 2 *", "2026-03-01T00:00", "2028-02-29T00:00"),
    ("0 0 29 2 *", "2096-02-29T00:00", "2104-02-29T00:00"),
    ("0 0 29 2 1", "2026-03-01T00:00", "2027-02-01T00:00"),
    ("0 0 29 2 */7", "2032-03-01T00:00", "2060-02-29T00:00"),
    ("0 0 29 2 */7", "2088-03-01T00:00", "2128-02-29T00:00"),
    ("59 23 31 12 *", "2026-12-31T23:59", "2027-12-31T23:59"),
]


@pytest.mark.parametrize(("expression", "after", "expected"), FAR_AWAY)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_firing_that_is_years_away_takes_little_work(expression, after, expected, zone):
    cron, rules = Cron.parse(expression), zone_of(zone)
    instant = datetime.fromisoformat(after).replace(tzinfo=rules).timestamp()
    found = cron.next_after(instant, rules)
    assert datetime.fromtimestamp(found, rules).replace(tzinfo=None).isoformat(timespec="minutes") == expected
    # A function call or five for each year that is looked at, none for each day.
    years = int(expected[:4]) - int(after[:4])
    assert calls_made_by(lambda: cron.next_after(found - 1, rules)) < 60
    assert calls_made_by(lambda: cron.next_after(instant, rules)) < 60 + 6 * years


def test_a_change_of_the_clock_is_found_by_halving():
    cron, apia = Cron.parse("0 3 * * *"), zone_of("Pacific/Apia")
    assert calls_made_by(lambda: cron.next_after(utc("2011-12-30T09:59"), apia)) < 200


def test_utc_needs_no_database_of_time_zones():
    program = (
        "import sys, zoneinfo\n"
        "zoneinfo.ZoneInfo = zoneinfo.available_timezones = None\n"
        "zoneinfo.reset_tzpath([])\n"
        "sys.modules['tzdata'] = None\n"
        "from tinyjobs.core.cron import Cron, zone_of\n"
        "print(Cron.parse('@daily').next_after(0.5, zone_of('UTC')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "86400.0\n", done.stderr


def test_without_a_database_the_remedy_is_named():
    program = (
        "import sys, zoneinfo\n"
        "zoneinfo.reset_tzpath([])\n"
        "sys.modules['tzdata'] = None\n"
        "from tinyjobs.core.cron import zone_of\n"
        "try:\n"
        "    zone_of('Europe/Berlin')\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "'Europe/Berlin'" in done.stdout and "install the package tzdata" in done.stdout, done.stderr


def test_a_zone_is_loaded_once():
    assert zone_of("Europe/Rome") is zone_of("Europe/Rome")
    assert zone_of("Europe/Rome") == ZoneInfo("Europe/Rome")
    assert zone_of("UTC") is UTC
    for number in range(1, 13):  # more than Python itself keeps
        zone_of(f"Etc/GMT-{number}")
    gc.collect()
    assert calls_made_by(lambda: zone_of("Etc/GMT-1")) < 10


@pytest.mark.parametrize(
    "name",
    [
        "America/Argentina/Buenos_Aires",
        "America/Port-au-Prince",
        "Etc/GMT+12",
        "EST5EDT",
        "GB-Eire",
        "Africa/Dar_es_Salaam",
    ],
)
def test_every_form_of_a_name_is_taken(name):
    assert str(zone_of(name)) == name


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Europe/Rom", "timezone 'Europe/Rom' is not known. Did you mean 'Europe/Rome'?"),
        ("europe/berlin", "Did you mean 'Europe/Berlin'?"),
        ("Berlin", "Did you mean 'Europe/Berlin'?"),
        ("New York", "Did you mean 'America/New_York'?"),
        ("utc", "Did you mean 'UTC'?"),
        ("Europe/Berlin ", "Did you mean 'Europe/Berlin'?"),
        ("Europe/Berlin\n", "Did you mean 'Europe/Berlin'?"),
        ("CEST", "Give a name of the IANA database, such as 'Europe/Berlin' or 'UTC'."),
        ("", "timezone '' is not known."),
        ("Mars/Olympus_Mons", "timezone 'Mars/Olympus_Mons' is not known."),
        ("Europe", "timezone 'Europe' is not known."),
        ("/etc/localtime", "is not known."),
        ("../../etc/passwd", "is not known."),
        ("Europe/../Europe/Rome", "is not known."),
        ("Europe//Rome", "is not known."),
        ("/Europe/Rome", "is not known."),
        ("Europe\\Rome", "is not known."),
        ("posix/Europe/Rome", "is not known."),
        ("right/UTC", "is not known."),
        ("localtime", "is not known."),
        ("posixrules", "is not known."),
        ("Factory", "is not known."),
        ("tzdata.zi", "is not known."),
        ("Europe/Rome\0", "is not known."),
        ("Ëurope/Rome", "is not known."),
        ("A" * 100_000, "is not known."),
        ("A/" * 100 + "A", "is not known."),
        (None, "timezone None is no name of a time zone"),
        (5, "timezone 5 is no name of a time zone"),
        (UTC, "is no name of a time zone"),
        ([], "is no name of a time zone"),
    ],
)
def test_a_zone_that_is_none_is_refused_with_a_close_one(name, complaint):
    with pytest.raises(ConfigurationError) as caught:
        zone_of(name)
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 300
