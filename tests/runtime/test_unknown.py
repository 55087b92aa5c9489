"""Jobs of tasks this worker does not know: kept, looked at more and more rarely, and told of without a flood."""

import asyncio
import logging

import pytest

from tests.runtime.conftest import eventually
from tinyjobs.core.job import Job
from tinyjobs.runtime.unknown import UnknownTasks


@pytest.fixture
def still(make_bench, frozen):
    return make_bench(clock=frozen, unknown_task_delay=10.0, unknown_task_max_delay=60.0)


def test_they_stay_queued_and_each_wait_doubles_up_to_a_bound(still, frozen):
    job = still.put("nobody.knows", max_attempts=2)
    waits = []
    for _ in range(6):
        still.run()
        stored = still.get(job)
        assert (stored.status, stored.attempts) == ("queued", 0)
        waits.append(stored.run_at - frozen.now())
        frozen.advance(waits[-1])
    assert waits == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0]
    assert still.history(job) == []


def test_they_run_with_all_their_attempts_once_the_task_is_known(still, frozen):
    job = still.put("late", max_attempts=1)
    for _ in range(5):
        still.run()
        frozen.advance(60.0)
    still.task("late", lambda: "here", store_result=True)
    still.run()
    assert (still.status(job), still.result(job)) == (["success"], "here")


def test_thousands_of_them_make_one_line_and_let_the_others_run(still, caplog):
    still.task("good", lambda number: None)
    still.put_many("nobody.knows", 1_000)
    good = still.put_many("good", 20)
    assert still.run().succeeded == 20
    assert still.status(*good) == ["success"] * 20
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(lines) == 1
    assert "nobody.knows" in lines[0]


def test_the_worker_that_knows_the_task_gets_it_from_the_one_that_does_not(make_bench):
    short = {"unknown_task_delay": 0.02, "unknown_task_max_delay": 0.05}
    old, new = make_bench("file", **short), make_bench("file", **short)
    new.task("fresh", lambda number: None)
    old.task("stale", lambda number: None)
    jobs = new.put_many("fresh", 30) + old.put_many("stale", 30)

    async def main():
        workers = [old.worker(), new.worker()]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        await eventually(lambda: old.counts() == {"success": 60})
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)

    asyncio.run(main())
    assert {old.get(job).attempts for job in jobs} == {1}


# --- what is said -----------------------------------------------------------------------------------------------------


def told(caplog):
    return [record.getMessage() for record in caplog.records]


def note(unknown, task, count):
    for number in range(count):
        unknown.note(Job(id=f"{task}-{number}", task=task), 60.0)


def test_a_name_is_told_once_a_minute_with_a_count_of_all_its_jobs_since(frozen, caplog):
    unknown = UnknownTasks(frozen.monotonic)
    note(unknown, "a", 3)
    unknown.tell()
    for _ in range(50):
        frozen.advance(1.0)
        note(unknown, "a", 2)
        unknown.tell()
    note(unknown, "b", 1)
    unknown.tell()
    frozen.advance(10.0)
    note(unknown, "a", 1)
    unknown.tell()
    first, second, third = told(caplog)
    assert "'a': 3 of its jobs" in first
    assert "'b': 1 of its jobs" in second
    assert "'a': 101 of its jobs" in third


def test_very_many_names_make_few_lines(frozen, caplog):
    unknown = UnknownTasks(frozen.monotonic)
    for number in range(500):
        note(unknown, f"task {number}", 2)
    unknown.tell()
    assert len(told(caplog)) == 11
    assert told(caplog)[-1].startswith("980 jobs of 490 further tasks")
