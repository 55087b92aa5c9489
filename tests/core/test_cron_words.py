"""Expressions in plain English: right for every one of them, and never the same for two that differ."""

import random
from itertools import product

import pytest

from tests.core.reference import random_expression
from tinyjobs.core.cron import Cron
from tinyjobs.core.cron_words import describe


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("0 * * * *", "every hour"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("5,20 * * * *", "at minutes 5 and 20 of every hour"),
        ("10-14,50 * * * *", "at minutes 10 to 14 and 50 of every hour"),
        ("1-59/2 * * * *", "at every 2nd minute from 1 to 59 of every hour"),
        ("*/7 * * * *", "at every 7th minute from 0 to 56 of every hour"),
        ("*/10 * * jan *", "every 10 minutes in January"),
        ("*/10 * * * mon", "every 10 minutes on Monday"),
        ("0 */2 * * *", "every 2 hours"),
        ("0 */12 * * *", "every 12 hours"),
        ("0 */5 * * *", "at 00:00, 05:00, 10:00, 15:00 and 20:00 every day"),
        ("5 */2 * * *", "every 2 hours from 00:05 to 22:05 every day"),
        ("0 0-23 * * *", "every hour from 00:00 to 23:00 every day"),
        ("0 0-22/2 * * *", "every 2 hours from 00:00 to 22:00 every day"),
        ("*/5 0-23 * * *", "every 5 minutes from 00:00 to 23:55 every day"),
        ("0 3 * * *", "at 03:00 every day"),
        ("30 2 * 1 1,5", "at 02:30 on Monday and Friday in January"),
        ("0,30 9,17 * * *", "at 09:00, 09:30, 17:00 and 17:30 every day"),
        ("25 8-16 * * *", "every hour from 08:25 to 16:25 every day"),
        ("*/15 8-16 * * 1-5", "every 15 minutes from 08:00 to 16:45 on Monday to Friday"),
        ("* 2 * * *", "every minute from 02:00 to 02:59 every day"),
        ("5,20,35 1-3,7,9 * * *", "at minutes 5, 20 and 35 of hours 01 to 03, 07 and 09 every day"),
        ("*/5 1,3 * * *", "every 5 minutes in hours 01 and 03 every day"),
        ("0 9 * 3-5 sat,sun", "at 09:00 on Saturday and Sunday from March to May"),
        ("0 9 * 1,3-5 *", "at 09:00 every day in January and March to May"),
        ("0 12 * * 0-3,5", "at 12:00 on Monday to Wednesday, Friday and Sunday"),
        ("0 0 1,15 * *", "at 00:00 on the 1st and 15th of every month"),
        ("0 0 2,3,11-13,21,22 * *", "at 00:00 on the 2nd, 3rd, 11th to 13th, 21st and 22nd of every month"),
        ("0 0 1,15 1,7 *", "at 00:00 on the 1st and 15th of January and July"),
        ("0 0 29 2 *", "at 00:00 on the 29th of February"),
        ("0 0 */2 * *", "at 00:00 on every 2nd day from the 1st to the 31st of every month"),
        ("0 0 1 * 0", "at 00:00 on the 1st and on every Sunday"),
        ("15 16 12 12 3", "at 16:15 on the 12th and on every Wednesday in December"),
        ("0 0 1-31 * 1", "at 00:00 every day"),
        ("0 0 15 1 0-6", "at 00:00 every day in January"),
        ("0 0 1-7 * */7", "at 00:00 on the 1st to 7th of every month if it is a Sunday"),
        ("0 0 1 */6 */2", "at 00:00 on the 1st of January and July if it is a Tuesday, Thursday, Saturday or Sunday"),
        ("@hourly", "every hour"),
        ("@daily", "at 00:00 every day"),
        ("@weekly", "at 00:00 on Sunday"),
        ("@monthly", "at 00:00 on the 1st of every month"),
        ("@yearly", "at 00:00 on the 1st of January"),
    ],
)
def test_sentences(expression, sentence):
    assert describe(Cron.parse(expression)) == sentence


def meaning(cron):
    """What it stands for, as far as a sentence without the rules of changing clocks can tell."""
    days = frozenset(
        (day, weekday)
        for day, weekday in product(range(1, 32), range(7))
        if sum((day in cron.days, weekday in cron.weekdays)) >= (1 if cron.either_day else 2)
    )
    return cron.minutes, cron.hours, cron.months, days


def simple_expressions():
    for minute, hour in product(
        ("*", "*/15", "*/7", "0", "5", "0,30", "10-40"), ("*", "*/2", "*/5", "0-23", "3", "8-16")
    ):
        yield f"{minute} {hour} * * *"
    for day, month, weekday in product(
        ("*", "*/2", "1", "1,15", "1-7", "31"), ("*", "1", "1,2", "3-5", "*/3"), ("*", "*/2", "0", "1-5", "sat,sun")
    ):
        yield f"0 3 {day} {month} {weekday}"


def test_no_two_schedules_share_a_sentence():
    rng = random.Random("sentences")
    expressions = list(simple_expressions())
    expressions += [made.text for made in (random_expression(rng, near=3) for _ in range(8_000)) if made.can_fire]
    said = {}
    for expression in expressions:
        cron = Cron.parse(expression)
        sentence = describe(cron)
        assert sentence == sentence.strip() and "  " not in sentence
        assert sentence.startswith(("at ", "every "))
        other = said.setdefault(sentence, cron)
        assert meaning(other) == meaning(cron), (str(other), expression, sentence)
    assert len(said) > 5_000


@pytest.mark.parametrize("minute", ["*", "*/5", "0", "7", "0,30"])
def test_a_frequency_and_the_same_times_of_the_day_are_told_apart(minute):
    assert describe(Cron.parse(f"{minute} * * * *")) != describe(Cron.parse(f"{minute} 0-23 * * *"))
