"""Options hold where they matter: at the first run and at every retry, the enqueue's value before the task's."""

import asyncio
import math
from datetime import UTC, datetime

import pytest

from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.status import ExecutionStatus, JobStatus

FAILS = {"retry_backoff": "fixed", "retry_base": 10, "retry_jitter": False}


def attempts_of(app, clock, job, seconds=10.0):
    """Drain until the job has ended, moving the clock on by one backoff at a time; the job after each drain."""
    seen = []
    for _ in range(20):
        app.drain()
        seen.append(app.get(job))
        if seen[-1].status.is_final:
            return seen
        clock.advance(seconds)
    raise AssertionError(f"the job did not end: {seen[-1]}")


@pytest.fixture
def failing(app):
    """A task that always fails; its options say how often it may."""

    def declare(**options):
        @app.task(name="failing", **FAILS | options)
        def failing(*args):
            raise ValueError("no")

        return failing

    return declare


@pytest.mark.parametrize("declared", [1, 2, 5])
def test_max_attempts_of_the_task(app, clock, failing, declared):
    seen = attempts_of(app, clock, failing(max_attempts=declared).enqueue())
    assert len(seen) == declared
    assert [execution.attempt for execution in app.executions(seen[-1])] == list(range(1, declared + 1))


@pytest.mark.parametrize("chosen", [1, 2, 4])
def test_max_attempts_of_the_enqueue_wins(app, clock, failing, chosen):
    job = failing(max_attempts=3).with_options(max_attempts=chosen).enqueue()
    assert len(attempts_of(app, clock, job)) == chosen


def test_max_attempts_of_the_enqueue_hold_again_after_a_retry_by_hand(app, clock, failing):
    job = failing(max_attempts=5).with_options(max_attempts=2).enqueue()
    attempts_of(app, clock, job)
    assert app.retry(job)
    assert len(attempts_of(app, clock, job)) == 2


def test_queue_priority_and_key_of_the_enqueue_hold_at_each_retry(app, clock, failing):
    task = failing(max_attempts=3, queue="a", priority=1)
    job = task.with_options(queue="b", priority=9, key="k").enqueue()
    for _ in range(2):
        assert app.drain(queues=["a"]) == 0
        assert app.drain(queues=["b"]) == 1
        stored = app.get(job)
        assert (stored.queue, stored.priority, stored.key) == ("b", 9, "k")
        assert task.with_options(key="k").enqueue().id == job.id  # held while it waits for its next attempt
        clock.advance(10)
    assert app.drain() == 1
    assert app.get(job).status is JobStatus.FAILED
    assert task.with_options(key="k").enqueue().id != job.id


def test_the_codec_of_the_enqueue_holds_at_each_retry(make_app, clock):
    app, got = make_app(allow_pickle=True), []

    @app.task(name="failing", max_attempts=2, store_result=True, **FAILS)
    def failing(value):
        got.append(value)
        if len(got) == 1:
            raise ValueError
        return value

    job = failing.with_options(codec="pickle").enqueue(range(3))
    ended = attempts_of(app, clock, job)[-1]
    assert got == [range(3)] * 2
    assert ended.result() == range(3)


def test_retry_on_and_backoff_of_the_task_hold_for_an_enqueue_with_options(app, clock):
    @app.task(
        name="picky", max_attempts=5, retry_on=KeyError, retry_backoff=lambda attempt: 7.0 * attempt, retry_jitter=False
    )
    def picky():
        raise KeyError if app.get(job).attempts < 3 else ValueError

    job = picky.with_options(priority=1).enqueue()
    start = clock.now()
    app.drain()
    assert app.get(job).run_at == start + 7
    clock.advance(7)
    app.drain()
    assert app.get(job).run_at == start + 7 + 14
    clock.advance(14)
    app.drain()
    assert app.get(job).status is JobStatus.FAILED
    assert "ValueError" in app.get(job).last_error


def test_higher_priorities_run_first_and_equal_ones_in_order(app, clock):
    ran = []

    @app.task(name="note")
    def note(value):
        ran.append(value)

    for priority in (0, -(2**31), 2**31 - 1, -100, 101, -101, 100, 0):
        note.with_options(priority=priority).enqueue((priority, len(ran)))
        clock.advance(1)
    note.enqueue("last")
    app.drain()
    order = [value if value == "last" else value[0] for value in ran]
    assert order == [2**31 - 1, 101, 100, 0, 0, "last", -100, -101, -(2**31)]


@pytest.mark.parametrize("timeout", [None, 0.5, 10**12])
@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("how", ["drain", "worker"])
def test_a_timeout_that_is_not_over_kills_nothing(app, timeout, kind, how):
    if kind == "plain":

        @app.task(name="quick", timeout=timeout)
        def quick(): ...

    else:

        @app.task(name="quick", timeout=timeout)
        async def quick(): ...

    job = quick.enqueue()
    if how == "drain":
        assert app.drain() == 1
    else:
        app.run_worker(until_empty=True, handle_signals=False)
    assert app.get(job).status is JobStatus.SUCCESS


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf])
def test_a_timeout_that_would_kill_at_once_is_refused(app, timeout):
    with pytest.raises(ConfigurationError, match="timeout"):
        app.task(timeout=timeout)(lambda: None)


@pytest.mark.parametrize("times", [1, 2])
def test_an_attempt_that_times_out_counts(app, clock, times):
    @app.task(name="endless", timeout=0.01, max_attempts=times, **FAILS)
    async def endless():
        await asyncio.Event().wait()

    job = endless.enqueue()
    assert len(attempts_of(app, clock, job)) == times
    assert [execution.status for execution in app.executions(job)] == [ExecutionStatus.TIMEOUT] * times


def test_a_delay_holds(app, clock):
    ran = []
    app.task(name="note")(lambda: ran.append(clock.now()))
    note = app.tasks["note"]
    note.with_options(delay=60).enqueue()
    note.with_options(run_at=datetime.fromtimestamp(clock.now() + 30, tz=UTC)).enqueue()
    start = clock.now()
    assert app.drain() == 0
    for step in (29, 1, 29, 1):
        clock.advance(step)
        app.drain()
    assert ran == [start + 30, start + 60]


@pytest.mark.parametrize("delay", [-(10**9), 0])
def test_a_delay_that_is_over_runs_now(app, delay):
    ran = []
    app.task(name="note")(lambda: ran.append(1))
    app.tasks["note"].with_options(delay=delay).enqueue()
    assert app.drain() == 1
    assert ran == [1]
