"""What an expression means, and what is refused: with the field, its value, and what is allowed."""

import random
from calendar import monthrange
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.reference import random_expression
from tinyjobs.core.cron import MACROS, Cron
from tinyjobs.core.errors import ConfigurationError

ALL = {
    "minutes": tuple(range(60)),
    "hours": tuple(range(24)),
    "days": tuple(range(1, 32)),
    "months": tuple(range(1, 13)),
    "weekdays": tuple(range(7)),
}


@pytest.mark.parametrize(
    ("expression", "restricted"),
    [
        ("* * * * *", {}),
        ("5 * * * *", {"minutes": (5,)}),
        ("05 * * * *", {"minutes": (5,)}),
        ("50,5,20,5 * * * *", {"minutes": (5, 20, 50)}),
        ("*/20 * * * *", {"minutes": (0, 20, 40)}),
        ("*/59 * * * *", {"minutes": (0, 59)}),
        ("10-14 * * * *", {"minutes": (10, 11, 12, 13, 14)}),
        ("10-30/10 * * * *", {"minutes": (10, 20, 30)}),
        ("10-29/10,59 * * * *", {"minutes": (10, 20, 59)}),
        ("7-7 * * * *", {"minutes": (7,)}),
        ("* 22-23,0 * * *", {"hours": (0, 22, 23)}),
        ("* * 31 * *", {"days": (31,)}),
        ("* * */10 * *", {"days": (1, 11, 21, 31)}),
        ("* * * 2,JUN-aug *", {"months": (2, 6, 7, 8)}),
        ("* * * Jan,dEC *", {"months": (1, 12)}),
        ("* * * */5 *", {"months": (1, 6, 11)}),
        ("* * * * 0", {"weekdays": (0,)}),
        ("* * * * 7", {"weekdays": (0,)}),
        ("* * * * 0,7", {"weekdays": (0,)}),
        ("* * * * 5-7", {"weekdays": (0, 5, 6)}),
        ("* * * * 1-7/2", {"weekdays": (0, 1, 3, 5)}),
        ("* * * * */2", {"weekdays": (0, 2, 4, 6)}),
        ("* * * * */7", {"weekdays": (0,)}),
        ("* * * * mon-FRI", {"weekdays": (1, 2, 3, 4, 5)}),
        ("* * * * Sat,Sun", {"weekdays": (0, 6)}),
        ("* * * * fri-sun", {"weekdays": (0, 5, 6)}),
        ("* * * * mon-sun", {}),
        ("* * * * sun-sun", {"weekdays": (0,)}),
        ("* * * * sun-tue", {"weekdays": (0, 1, 2)}),
        ("  1\t2 *  * * \n", {"minutes": (1,), "hours": (2,)}),
    ],
)
def test_fields(expression, restricted):
    cron = Cron.parse(expression)
    assert {name: getattr(cron, name) for name in ALL} == {**ALL, **restricted}


@pytest.mark.parametrize(
    ("macro", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        (" @Daily ", "0 0 * * *"),
    ],
)
def test_macros(macro, expression):
    assert Cron.parse(macro) == Cron.parse(expression)
    assert macro.strip().lower() in MACROS


def test_an_expression_is_a_value():
    cron = Cron.parse("0  0 *\t* Sun")
    assert cron == Cron.parse("@weekly")
    assert len({cron, Cron.parse("@weekly"), Cron.parse("0 0 * * 7")}) == 1
    assert str(cron) == "0 0 * * Sun"
    assert str(Cron.parse(" @weekly")) == "@weekly"
    with pytest.raises(AttributeError):
        cron.minutes = ()


@pytest.mark.parametrize("hour", ["*", "*/2", "*,3"])
def test_an_hour_that_begins_with_a_star_follows_the_clock(hour):
    assert Cron.parse(f"0 {hour} * * *").follows_clock


@pytest.mark.parametrize("hour", ["3", "0-23", "0-23/2", "3,*"])
def test_any_other_hour_is_a_time_of_the_day(hour):
    assert not Cron.parse(f"0 {hour} * * *").follows_clock


@pytest.mark.parametrize(
    ("expression", "either"),
    [("0 0 1 * 1", True), ("0 0 1 * *", False), ("0 0 * * 1", False), ("0 0 */2 * 1", False), ("0 0 1 * */2", False)],
)
def test_either_day_will_do_only_if_neither_field_begins_with_a_star(expression, either):
    assert Cron.parse(expression).either_day is either


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("* * 0 * *", r"day of the month '0' cannot be: it takes 1 to 31, lists"),
        ("* * * 0 *", r"month '0' cannot be: it takes 1 to 12 or jan to dec,"),
        ("60 * * * *", r"cron '60 \* \* \* \*': minute '60' cannot be: it takes 0 to 59,"),
        ("* 24 * * *", r"hour '24' cannot be: it takes 0 to 23,"),
        ("* * 32 * *", r"day of the month '32'"),
        ("* * * 13 *", r"month '13'"),
        ("* * * * 8", r"weekday '8' cannot be: it takes 0 to 7 or sun to sat,"),
        ("0-60 * * * *", r"minute '0-60'"),
        ("5,60 * * * *", r"minute '60'"),
        ("*/0 * * * *", r"minute '\*/0' has a step that is none: a step is a number from 1 to 59"),
        ("*/60 * * * *", r"minute '\*/60' has a step"),
        ("* */24 * * *", r"hour '\*/24' has a step that is none: a step is a number from 1 to 23"),
        ("*/ * * * *", r"minute '\*/' has a step"),
        ("*/-2 * * * *", r"minute '\*/-2' has a step"),
        ("*/2/2 * * * *", r"minute '\*/2/2' has a step"),
        ("*/x * * * *", r"minute '\*/x' has a step"),
        ("5-1 * * * *", r"minute '5-1' runs backwards: write it as two ranges, '5-59,0-1'"),
        ("* * * * fri-mon", r"weekday 'fri-mon' runs backwards: write it as two ranges, '5-7,0-1'"),
        ("* * * * 5-0", r"weekday '5-0' runs backwards"),
        ("* * * nov-feb *", r"month 'nov-feb' runs backwards: write it as two ranges, '11-12,1-2'"),
        ("5/15 * * * *", r"minute '5/15' is a step without a range: write '5-59/15', or '5' if that is meant"),
        ("", r"cron '' has 0 fields instead of five: minute, hour, day of the month, month, weekday"),
        ("   ", r"has 0 fields"),
        ("5", r"has 1 field instead of five"),
        ("* * * *", r"has 4 fields instead of five"),
        ("* * * * * *", r"has 6 fields instead of five"),
        ("0 0 * * * 2026", r"has 6 fields instead of five"),
        ("@reboot", r"cron '@reboot' is no macro\. There are @hourly, @daily, @midnight, .*@annually"),
        ("@daily @daily", r"is no macro"),
        ("1,,2 * * * *", r"minute ''"),
        (", * * * *", r"minute ''"),
        ("-1 * * * *", r"minute '-1'"),
        ("1- * * * *", r"minute '1-'"),
        ("1-2-3 * * * *", r"minute '1-2-3'"),
        ("*-5 * * * *", r"minute '\*-5'"),
        ("** * * * *", r"minute '\*\*'"),
        ("+5 * * * *", r"minute '\+5'"),
        ("1_0 * * * *", r"minute '1_0'"),
        ("1.0 * * * *", r"minute '1\.0'"),
        ("٣ * * * *", r"minute '٣'"),
        ("² * * * *", r"minute '²'"),
        ("9" * 5000 + " * * * *", r"minute '9+"),
        ("jan * * * *", r"minute 'jan'"),
        ("* * * mon *", r"month 'mon'"),
        ("* * * january *", r"month 'january'"),
        ("* * * * monday", r"weekday 'monday'"),
        ("* * ? * *", r"day of the month '\?'"),
        ("* * L * *", r"day of the month 'L'"),
        ("* * * * 5#2", r"weekday '5#2'"),
        (None, r"cron None is no text, such as"),
        (5, r"cron 5 is no text"),
        (b"* * * * *", r"is no text"),
    ],
)
def test_what_cannot_be_is_refused_by_name(expression, complaint):
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        Cron.parse(expression)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 31 2 *",
        "0 0 30 2 *",
        "0 0 31 4 *",
        "0 0 31 4,6,9,nov *",
        "0 0 30-31 feb *",
        "0 0 30 2 */2",
        "0 0 31 2-6/2 *",
    ],
)
def test_dates_that_never_come_are_refused(expression):
    with pytest.raises(ConfigurationError, match=r"never fires: day of the month .* does not exist in month"):
        Cron.parse(expression)


@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "0 0 29-31 2 *", "0 0 31 1,2 *", "0 0 31 2 0", "0 0 29 2 */7", "0 0 31 */3 *"]
)
def test_dates_that_come_at_last_are_not(expression):
    Cron.parse(expression)


@pytest.mark.parametrize("weekday", ["*", "*/2", "1"])
def test_every_date_is_judged_by_the_calendar(weekday):
    for month, day in product(range(1, 13), range(1, 32)):
        expression = f"0 0 {day} {month} {weekday}"
        if weekday == "1" or day <= monthrange(2000, month)[1]:
            Cron.parse(expression)
        else:
            with pytest.raises(ConfigurationError, match="never fires"):
                Cron.parse(expression)


def test_random_expressions_mean_what_they_were_made_of():
    rng = random.Random("expressions")
    for made in (random_expression(rng, near=2) for _ in range(3_000)):
        if made.can_fire:
            cron = Cron.parse(made.text)
            assert {name: getattr(cron, name) for name in ALL} == {
                name: tuple(sorted(getattr(made, name))) for name in ALL
            }, made.text


@given(st.text("*/-,0123456789 @LWjanmonsu#?\t", max_size=30) | st.text(max_size=20))
@settings(max_examples=500, deadline=None)
def test_any_text_is_read_or_refused_plainly(text):
    try:
        cron = Cron.parse(text)
    except ConfigurationError as error:
        assert str(error).startswith("cron ")
    else:
        assert all(getattr(cron, name) for name in ALL)
