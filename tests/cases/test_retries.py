"""Delays between attempts, from the first to far beyond what any job needs: never an error, never beyond the cap."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from tinyjobs import Retry
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.job import Job
from tinyjobs.core.options import LAST_INSTANT, TaskOptions
from tinyjobs.core.retry import LONGEST_DELAY, backoff_delay, retry_at

ATTEMPTS = [1, 2, 3, 16, 17, 46, 47, 64, 500, 501, 1023, 1024, 1025, 5000, 2**31 - 1]


def options(**given):
    return TaskOptions.parse(given, "a test")


def failed_job(attempts, max_attempts=2**31 - 1):
    return Job(id="j", task="t", run_at=0.0, created_at=0.0, attempts=attempts, max_attempts=max_attempts)


@pytest.mark.parametrize("base", [0.001, 1.0, 5.0, 1e300])
@pytest.mark.parametrize("cap", [0.5, 3600.0, LONGEST_DELAY, 1e308])
def test_exponential_delays_grow_up_to_the_cap_and_stay_there(base, cap):
    delays = [backoff_delay(options(retry_base=base, retry_max=cap), attempt) for attempt in ATTEMPTS]
    assert delays == sorted(delays)
    assert all(0 < delay <= min(cap, LONGEST_DELAY) for delay in delays)
    assert delays[-1] == min(cap, LONGEST_DELAY)


def test_the_first_delays_are_the_base_and_its_doubles():
    assert [backoff_delay(options(retry_base=3.0), attempt) for attempt in (1, 2, 3, 4)] == [3.0, 6.0, 12.0, 24.0]


@pytest.mark.parametrize(
    ("answer", "delay"),
    [(-5, 0.0), (7, 7.0), (math.inf, LONGEST_DELAY), (math.nan, LONGEST_DELAY), (1e300, LONGEST_DELAY)],
)
def test_whatever_a_function_answers_is_bounded(answer, delay):
    assert backoff_delay(options(retry_backoff=lambda attempt: answer), 1) == delay


@pytest.mark.parametrize("attempts", ATTEMPTS)
def test_the_next_attempt_is_at_an_instant_that_a_store_keeps(attempts):
    policy = options(retry_base=1e300, retry_max=1e308, retry_jitter=False)
    assert retry_at(policy, failed_job(attempts, 2**32), ValueError(), LAST_INSTANT - 1, 1.0) == LAST_INSTANT


@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_as_many_attempts_as_allowed_and_not_one_more(allowed):
    again = [
        retry_at(options(), failed_job(attempts, allowed), ValueError(), 0.0, 1.0) is not None
        for attempts in range(1, allowed + 2)
    ]
    assert again == [True] * (allowed - 1) + [False, False]


@pytest.mark.parametrize(
    ("asked", "due"),
    [
        ({}, 1000.0),
        ({"in_": 30}, 1030.0),
        ({"in_": -(10**9)}, 1000.0),
        ({"in_": timedelta(minutes=1)}, 1060.0),
        ({"in_": timedelta.max}, LAST_INSTANT),
        ({"in_": 10**12}, LAST_INSTANT),
        ({"at": datetime(2001, 1, 1, tzinfo=UTC)}, datetime(2001, 1, 1, tzinfo=UTC).timestamp()),
        ({"at": datetime(1, 1, 1, tzinfo=UTC)}, 0.0),
    ],
)
def test_a_time_the_task_asks_for(asked, due):
    assert retry_at(options(), failed_job(1), Retry(**asked), 1000.0, 1.0) == due


@pytest.mark.parametrize(
    "asked",
    [
        {"in_": math.nan},
        {"in_": math.inf},
        {"in_": 10**400},
        {"in_": 10**5000},
        {"in_": "soon"},
        {"in_": True},
        {"at": datetime(2030, 1, 1)},
        {"at": datetime.max.replace(tzinfo=UTC)},
        {"in_": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)},
    ],
)
def test_a_time_that_cannot_be_is_said_where_it_is_asked_for(asked):
    with pytest.raises(ConfigurationError, match="Retry"):
        Retry(**asked)


@pytest.mark.parametrize("timeout", [0, -1, -0.0, math.nan, math.inf, True, "3", 10**400, timedelta(0), timedelta(-1)])
def test_a_timeout_that_would_end_a_job_at_once_or_never_is_refused(timeout):
    with pytest.raises(ConfigurationError, match="timeout"):
        options(timeout=timeout)


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(None, None), (0.5, 0.5), (10**12, 1e12), (timedelta(minutes=1), 60.0)]
)
def test_other_timeouts_are_kept(timeout, seconds):
    assert options(timeout=timeout).timeout == seconds


@pytest.mark.parametrize("name", ["priority", "max_attempts", "timeout", "retry_base", "retry_max"])
def test_a_number_too_long_to_be_written_is_refused_in_words(name):
    with pytest.raises(ConfigurationError, match=f"a test: {name}: a number of thousands of digits is"):
        options(**{name: 10**5000})
