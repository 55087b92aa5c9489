"""What becomes of attempts: retries and their times, odd endings, results and payloads nobody can make sense of."""

import asyncio
import dataclasses
import sys
import time

import pytest

from tests.runtime.conftest import PATIENCE
from tinyjobs.core import transitions
from tinyjobs.core.errors import ResultTooLarge, UnencodableResult
from tinyjobs.core.job import Job
from tinyjobs.core.retry import Abandon, Retry
from tinyjobs.runtime.attempt import Conclusion
from tinyjobs.runtime.drain import drain
from tinyjobs.runtime.driving import drive


@pytest.fixture(params=["thread", "coroutine"])
def kind(request):
    return request.param


def of_kind(kind, function):
    async def awaited(*args):
        return function(*args)

    return function if kind == "thread" else awaited


# --- retries, by a frozen clock ---------------------------------------------------------------------------------------


def delays(bench, clock, job, attempts):
    """Drain attempt after attempt, moving the clock to each next one; the time between them."""
    waits = []
    for _ in range(attempts):
        assert drain(bench.engine()) == 1
        stored = bench.get(job)
        if stored.status.is_final:
            break
        waits.append(round(stored.run_at - clock.now(), 6))
        clock.advance(stored.run_at - clock.now() - 0.001)
        assert drain(bench.engine()) == 0
        clock.advance(0.002)
    return waits


def failing(number=0):
    raise ValueError("again")


@pytest.fixture
def still(make_bench, frozen):
    return make_bench(clock=frozen)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1.0, 2.0, 4.0, 8.0]),
        ({"retry_base": 3.0, "retry_max": 10.0}, [3.0, 6.0, 10.0, 10.0]),
        ({"retry_backoff": "fixed", "retry_base": 7.0}, [7.0, 7.0, 7.0, 7.0]),
        ({"retry_backoff": lambda attempt: attempt * 100.0}, [100.0, 200.0, 300.0, 400.0]),
    ],
)
def test_retries_wait_as_the_policy_says_and_end_with_the_attempts(still, frozen, kind, options, expected):
    still.task("bad", of_kind(kind, failing), max_attempts=5, retry_jitter=False, **options)
    job = still.put("bad")
    assert delays(still, frozen, job, 9) == expected
    stored = still.get(job)
    assert (stored.status, stored.attempts) == ("failed", 5)
    assert still.history(job) == ["failed"] * 5
    assert [entry.attempt for entry in still.executions(job)] == [1, 2, 3, 4, 5]


def test_jitter_takes_up_to_half_of_the_delay_away(still, frozen):
    still.task("bad", failing, max_attempts=40, retry_backoff="fixed", retry_base=100.0)
    job = still.put("bad")
    waits = delays(still, frozen, job, 40)
    assert len(waits) == 39
    assert all(50.0 <= wait <= 100.0 for wait in waits)
    assert max(waits) - min(waits) > 20.0


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("failure", ["raises", "times out"])
def test_exactly_as_many_runs_as_attempts(bench, kind, attempts, failure):
    runs = []

    def raising():
        runs.append(1)
        raise ValueError

    def slow():
        runs.append(1)
        time.sleep(0.1)

    async def slow_on_the_loop():
        runs.append(1)
        await asyncio.sleep(PATIENCE)

    slow_one = slow if kind == "thread" else slow_on_the_loop
    function = of_kind(kind, raising) if failure == "raises" else slow_one
    timeout = {"timeout": 0.02} if failure == "times out" else {}
    bench.task("bad", function, max_attempts=attempts, retry_base=0.001, **timeout)
    job = bench.put("bad")
    asyncio.run(_until_final(bench, job))
    assert len(runs) == attempts
    assert bench.history(job) == ["failed" if failure == "raises" else "timeout"] * attempts


async def _until_final(bench, job):
    worker = bench.worker(poll=0.01)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(PATIENCE):
        while not bench.get(job).status.is_final:
            await asyncio.sleep(0.01)
    worker.stop()
    await running


def test_a_retry_at_a_time_of_the_tasks_choosing(still, frozen, kind):
    def busy():
        raise Retry("come back", in_=30.0)

    still.task("busy", of_kind(kind, busy), max_attempts=3, retry_on=(KeyError,))
    job = still.put("busy")
    assert delays(still, frozen, job, 5) == [30.0, 30.0]
    assert still.get(job).last_error == "Retry: come back"
    assert still.get(job).status == "failed"


def test_an_abandoned_job_fails_for_good_with_attempts_left(bench, kind):
    def hopeless():
        raise Abandon("will never do")

    bench.task("hopeless", of_kind(kind, hopeless), max_attempts=9)
    job = bench.put("hopeless")
    report = bench.run()
    assert (report.failed, report.retried) == (1, 0)
    assert (bench.get(job).status, bench.get(job).last_error) == ("failed", "Abandon: will never do")


def test_only_the_named_errors_are_tried_again(still, frozen):
    def by_number(number):
        raise (ConnectionError, ValueError)[number]("by number")

    still.task("picky", by_number, max_attempts=3, retry_on=(ConnectionError, "builtins.KeyError"))
    lost, wrong = still.put_many("picky", 2)
    assert drain(still.engine()) == 2
    assert still.status(lost, wrong) == ["queued", "failed"]


@pytest.mark.parametrize("policy", ["raises", "is not there", "is no number"])
def test_a_policy_that_fails_ends_the_job_and_hurts_nobody_else(bench, policy, caplog):
    def raising(attempt):
        raise RuntimeError("no idea")

    backoff = {"raises": raising, "is not there": "nowhere.at_all", "is no number": lambda attempt: "soon"}[policy]
    bench.task("bad", failing, max_attempts=3, retry_backoff=backoff)
    bench.task("good", lambda: None)
    bad, good = bench.put("bad"), bench.put("good")
    bench.run()
    assert bench.status(bad, good) == ["failed", "success"]
    assert bench.get(bad).last_error == "ValueError: again"


# --- odd endings ------------------------------------------------------------------------------------------------------


class NeedsArguments(Exception):
    def __init__(self, one, two):
        super().__init__()


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


NUMBER: object = 5


class NoText(Exception):
    def __str__(self):
        return NUMBER


def recurse():
    return recurse() + 1


def loop_of_causes():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    raise one


def local_class():
    class Local(Exception):
        pass

    raise Local("hidden")


def raising(error):
    def function():
        raise error

    return function


ODD = {
    "sys.exit": (lambda: sys.exit(3), "SystemExit"),
    "sys.exit with a text": (lambda: sys.exit("bye"), "SystemExit: bye"),
    "KeyboardInterrupt": (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
    "GeneratorExit": (raising(GeneratorExit()), "GeneratorExit"),
    "BaseException": (raising(BaseException("base")), "BaseException: base"),
    "CancelledError": (raising(asyncio.CancelledError()), "CancelledError"),
    "arguments": (raising(NeedsArguments(1, 2)), "NeedsArguments"),
    "unprintable": (raising(Unprintable()), "Unprintable"),
    "no text": (raising(NoText()), "NoText"),
    "50 MB": (lambda: (_ for _ in ()).throw(ValueError("x" * 50_000_000)), "ValueError: xxx"),
    "NUL and surrogates": (raising(ValueError("a\x00b\ud800c")), "ValueError: a\\x00b\\ud800c"),
    "group": (raising(ExceptionGroup("many", [ValueError(1), KeyError(2)])), "ExceptionGroup: many"),
    "base group": (raising(BaseExceptionGroup("many", [SystemExit(1)])), "BaseExceptionGroup: many"),
    "recursion": (recurse, "RecursionError"),
    "loop of causes": (loop_of_causes, "ValueError: one"),
    "local class": (local_class, "Local: hidden"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_ending_fails_the_job_and_the_worker_goes_on(bench, kind, name):
    function, expected = ODD[name]
    bench.task("odd", of_kind(kind, function))
    bench.task("good", of_kind(kind, lambda: "fine"), store_result=True)
    odd = bench.put("odd")
    good = [bench.put("good") for _ in range(3)]
    report = bench.run(concurrency=1, async_concurrency=1)
    assert (report.succeeded, report.failed) == (3, 1)
    stored = bench.get(odd)
    assert stored.status == "failed"
    assert expected in stored.last_error
    assert len(stored.last_error) < 10_000
    (execution,) = bench.executions(odd)
    assert len(execution.traceback) <= 40_000
    assert bench.status(*good) == ["success"] * 3


def test_stop_iteration_fails_the_job(bench, kind):
    bench.task("odd", of_kind(kind, raising(StopIteration(5))))
    job = bench.put("odd")
    bench.run()
    assert bench.status(job) == ["failed"]


@pytest.mark.parametrize("how", ["gather", "group", "bare task"])
def test_a_child_of_a_coroutine_that_exits_does_not_end_the_worker(make_bench, how, monkeypatch):
    """Asyncio lets SystemExit out of the loop when a task other than the job's own raises it."""

    bench = make_bench("file")

    async def leave():
        sys.exit(7)

    async def odd():
        if how == "gather":
            await asyncio.gather(leave(), asyncio.sleep(0))
        elif how == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(leave())
        else:
            await asyncio.create_task(leave())

    async def good():
        await asyncio.sleep(0.01)

    bench.task("odd", odd)
    bench.task("good", good)
    monkeypatch.setattr("tinyjobs.runtime.driving.StopSignals", _NoSignals)
    odd_job = bench.put("odd")
    jobs = [bench.put("good") for _ in range(20)]
    report = drive(bench.worker(until_empty=True, handle_signals=True, async_concurrency=4))
    assert (report.succeeded, report.failed) == (20, 1)
    assert "SystemExit" in bench.executions(odd_job)[0].traceback
    assert bench.status(*jobs) == ["success"] * 20


def test_a_job_that_stops_the_loop_does_not_end_the_worker(make_bench, monkeypatch):

    bench = make_bench("file")

    async def odd():
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)

    bench.task("odd", odd)
    monkeypatch.setattr("tinyjobs.runtime.driving.StopSignals", _NoSignals)
    bench.put_many("odd", 0)
    jobs = [bench.put("odd") for _ in range(3)]
    assert drive(bench.worker(until_empty=True, handle_signals=True)).succeeded == 3
    assert bench.status(*jobs) == ["success"] * 3


class _NoSignals:
    """The tests' own process keeps its handlers."""

    presses = 0

    def __init__(self, *arguments):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


# --- results ----------------------------------------------------------------------------------------------------------


class Opaque:
    pass


UNSTORABLE = {
    "a lock": lambda: __import__("threading").Lock(),
    "a generator": lambda: (number for number in ()),
    "an object": Opaque,
    "a deep list": lambda: _deep(100_000),
}


def _deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("name", UNSTORABLE)
def test_a_result_that_cannot_be_stored_fails_the_job_and_is_not_tried_again(bench, kind, name):
    told = []
    bench.hooks.on_failure.append(lambda job, error, will_retry: told.append((type(error), will_retry)))
    bench.task("make", of_kind(kind, UNSTORABLE[name]), store_result=True, max_attempts=5)
    bench.task("good", of_kind(kind, lambda: 1), store_result=True)
    job, good = bench.put("make"), bench.put("good")
    bench.run()
    stored = bench.get(job)
    assert (stored.status, stored.attempts) == ("failed", 1)
    assert stored.last_error.startswith("UnencodableResult")
    assert told == [(UnencodableResult, False)]
    assert bench.result(good) == 1


def test_a_result_over_the_bound_fails_the_job_and_one_within_is_kept(make_bench, kind):
    bench = make_bench(max_result_bytes=100)
    told = []
    bench.hooks.on_failure.append(lambda job, error, will_retry: told.append((type(error), will_retry)))
    bench.task("make", of_kind(kind, lambda number: "x" * (98 + number)), store_result=True, max_attempts=5)
    jobs = bench.put_many("make", 2)
    bench.run()
    assert bench.status(*jobs) == ["success", "failed"]
    assert told == [(ResultTooLarge, False)]
    assert bench.result(jobs[0]) == "x" * 98


def test_results_nobody_wants_may_be_anything(bench, kind):
    bench.task("make", of_kind(kind, Opaque))
    job = bench.put("make")
    assert bench.run().succeeded == 1
    assert bench.get(job).result is None


# --- payloads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"", b"not json", b"\xff\xfe", b'{"$t":"nobody","$v":1}', b"[1,2,3]", b"5"])
def test_arguments_nobody_can_read_fail_the_job_without_running_it(bench, payload):
    ran = []
    bench.task("note", lambda *args: ran.append(args), max_attempts=5)
    odd = bench.put("note", payload=payload)
    good = bench.put("note", 1)
    bench.run()
    assert bench.status(odd, good) == ["failed", "success"]
    assert ran == [(1,)]
    assert bench.history(odd) == ["failed"]


def test_a_codec_nobody_has_fails_the_job(bench):
    bench.task("note", lambda: None)
    job = bench.put("note", codec="pickle")
    bench.run()
    assert bench.status(job) == ["failed"]
    assert "pickle" in bench.get(job).last_error


def test_arguments_that_do_not_fit_fail_the_job(bench, kind):
    bench.task("note", of_kind(kind, lambda: None))
    job = bench.put("note", 1, 2, 3)
    bench.run()
    assert bench.get(job).last_error.startswith("TypeError")


def test_a_recorded_job_is_the_claimed_one_with_what_the_outcome_changed():
    """Every field is carried over, also one that a later version adds."""
    values = {field.name: f"{field.name}!" for field in dataclasses.fields(Job)}
    claimed = Job(**values)
    outcome = transitions.succeeded(Job(id="id!", task="task!", claims=3, attempts=2), b"7", 99.0)
    changed = {
        "status": outcome.status,
        "attempts": 2,
        "hand_backs": outcome.hand_backs,
        "run_at": outcome.run_at,
        "started_at": outcome.started_at,
        "finished_at": 99.0,
        "lease_expires_at": None,
        "last_error": None,
        "result": b"7",
    }
    assert dataclasses.asdict(Conclusion(claimed, outcome).recorded_job()) == values | changed
