"""How outcomes reach the store: in groups, one write at a time, each on its own merits, and bounded in number."""

import asyncio
import logging
import sqlite3
import threading

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core import transitions
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.runtime.attempt import Conclusion
from tinyjobs.runtime.recorder import GROUP, GROUP_BYTES, Recorder


class Listener:
    """Stands for the runner of hooks: notes what it is handed."""

    def __init__(self):
        self.told = []

    def add(self, hooks, job, *arguments):
        self.told.append((job.id, *arguments))


def running_jobs(bench, count):
    bench.put_many("note", count)
    return finish(bench.store.inline().claim(ClaimRequest(worker_id="here", limit=count, lease=60.0))).jobs


def succeeded(job, result=None, now=1.0):
    return Conclusion(job, transitions.succeeded(job, result, now), result)


def run_worker(worker):
    return asyncio.run(asyncio.wait_for(worker.run(), PATIENCE))


# --- groups -----------------------------------------------------------------------------------------------------------


def test_hooks_hear_of_a_group_in_the_order_its_jobs_ended(bench):
    bench.hooks.on_success.append(lambda *arguments: None)
    listener = Listener()
    recorder = Recorder(bench.engine(), listener)
    jobs = running_jobs(bench, 5)
    ended = [jobs[place] for place in (3, 0, 4, 1, 2)]
    for job in ended:
        recorder.add(succeeded(job))

    async def main():
        group = recorder.take()
        await recorder.settle(group, await bench.store.record([entry.outcome for entry in group]))

    asyncio.run(main())
    assert [job_id for job_id, *_ in listener.told] == [job.id for job in ended]
    assert recorder.succeeded == 5


def test_a_group_is_sent_in_the_order_of_ids_and_bounded_in_number_and_size(make_bench):
    bench = make_bench()
    recorder = Recorder(bench.engine(), Listener())
    jobs = running_jobs(bench, GROUP + 3)
    for job in reversed(jobs):
        recorder.add(succeeded(job))
    group = recorder.take()
    assert [entry.job.id for entry in group] == [job.id for job in jobs[3:]]
    assert len(recorder) == 3
    recorder.put_back(group)
    assert len(recorder) == GROUP + 3

    recorder = Recorder(bench.engine(), Listener())
    for job in jobs[:5]:
        recorder.add(succeeded(job, b"x" * (GROUP_BYTES // 2)))
    assert [len(recorder.take()) for _ in range(3)] == [2, 2, 1]


def test_one_write_is_in_flight_while_what_ends_meanwhile_collects_for_the_next(make_bench):
    bench = make_bench("file")
    store = Wrapped(bench.store)
    in_flight, groups = [], []
    held, go_on = asyncio.Event(), asyncio.Event()

    async def first_one_waits(outcomes, request=None):
        assert not in_flight
        in_flight.append(1)
        groups.append(len(outcomes))
        if len(outcomes) == 1 and not held.is_set():
            held.set()
            await go_on.wait()

    store.before["record"] = first_one_waits
    store.after["record"] = lambda answer: in_flight.clear()
    gates = [asyncio.Event() for _ in range(10)]

    async def wait(number):
        await gates[number].wait()

    bench.task("wait", wait)
    bench.put_many("wait", 10)

    async def main():
        worker = bench.worker(store=store, until_empty=True)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: worker._parts and len(worker._parts.coroutines.running()) == 10)
        gates[0].set()
        await held.wait()
        for gate in gates[1:]:
            gate.set()
        await eventually(lambda: len(worker._parts.recorder) == 9)
        go_on.set()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert [size for size in groups if size] == [1, 9]
    assert bench.counts() == {"success": 10}


def test_outcomes_not_yet_confirmed_are_bounded_by_the_slots(make_bench):
    """More slots than one group holds: without a bound every claim would add more than every write takes away."""
    bench = make_bench("file")
    store = Wrapped(bench.store)
    slots, waiting = 600, []

    async def nothing(number):
        return None

    bench.task("nothing", nothing)
    bench.put_many("nothing", 6_000)
    worker = bench.worker(store=store, until_empty=True, async_concurrency=slots)

    async def slowly(outcomes, request=None):
        # Everything that runs ends while the write is on its way.
        await eventually(lambda: not worker._parts.coroutines.running())
        waiting.append(len(worker._parts.recorder) + len(outcomes))

    store.before["record"] = slowly
    run_worker(worker)
    assert bench.counts() == {"success": 6_000}
    assert slots < max(waiting) <= 2 * slots


# --- outcomes that do not land ----------------------------------------------------------------------------------------


def test_an_outcome_the_store_refuses_fails_alone_and_the_others_land(make_bench, caplog):
    bench = make_bench()
    bench.store._inline._connection._raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 60_000)
    told = []
    bench.hooks.on_failure.append(lambda job, error, again: told.append((job.id, type(error).__name__, again)))

    async def answer(number):
        return "x" * (100_000 if number == 3 else 10)

    bench.task("answer", answer, store_result=True, max_attempts=5)
    ids = bench.put_many("answer", 8)
    report = bench.run()
    assert (report.succeeded, report.failed) == (7, 1)
    poisoned = bench.get(ids[3])
    assert poisoned.status == "failed"
    assert "UnencodableResult" in poisoned.last_error
    assert bench.status(*ids[:3], *ids[4:]) == ["success"] * 7
    assert bench.history(ids[3]) == ["failed"]
    assert told == [(ids[3], "UnencodableResult", False)]


def test_a_lost_answer_is_settled_by_the_claim_and_counts_once(make_bench, caplog):
    """The write landed and its answer was lost: sent again it is refused as stale, and must not be taken for that."""
    bench = make_bench("file")
    told = []
    bench.hooks.on_success.append(lambda job, result, seconds: told.append(job.id))
    bench.hooks.on_failure.append(lambda job, error, will_retry: told.append((job.id, will_retry)))
    store = Wrapped(bench.store)
    lost = []

    def lose_the_first_answers(recorded):
        if recorded.applied and len(lost) < 2:
            lost.append(len(recorded.applied))
            raise StoreUnavailableError("the connection broke")

    store.after["record"] = lose_the_first_answers
    bench.task("good", lambda: None)
    bench.task("bad", lambda: 1 / 0)
    bench.task("again", lambda: 1 / 0, max_attempts=2, retry_base=3600.0)
    ids = [bench.put("good"), bench.put("bad"), bench.put("again")]
    report = run_worker(bench.worker(store=store, until_empty=True))
    assert lost
    assert (report.succeeded, report.failed, report.retried, report.left_delayed) == (1, 1, 1, 1)
    assert sorted(map(str, told)) == sorted(map(str, [ids[0], (ids[1], False), (ids[2], True)]))
    assert [bench.history(job_id) for job_id in ids] == [["success"], ["failed"], ["failed"]]
    assert "too late" not in caplog.text


def test_a_question_after_a_lost_answer_that_fails_too_leaves_the_rest_of_the_group_recorded(make_bench):
    bench = make_bench()
    bench.hooks.on_success.append(lambda *arguments: None)
    store = Wrapped(bench.store)
    listener = Listener()
    recorder = Recorder(bench.engine(store), listener)
    landed, fresh = running_jobs(bench, 2)

    def down(job_id):
        raise StoreUnavailableError("down")

    async def main():
        recorder.add(succeeded(landed))
        group = recorder.take()
        await store.record([entry.outcome for entry in group])
        recorder.put_back(group)
        recorder.add(succeeded(fresh))
        group = recorder.take()
        store.before["executions"] = down
        await recorder.settle(group, await store.record([entry.outcome for entry in group]))
        assert [job_id for job_id, *_ in listener.told] == [fresh.id]
        assert [entry.job_id for entry in recorder.held()] == [landed.id]
        store.before.clear()
        group = recorder.take()
        await recorder.settle(group, await store.record([entry.outcome for entry in group]))

    asyncio.run(main())
    assert [job_id for job_id, *_ in listener.told] == [fresh.id, landed.id]
    assert (recorder.succeeded, len(recorder), recorder.held()) == (2, 0, [])


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
def test_a_job_cancelled_while_it_runs_stays_cancelled_and_its_outcome_is_refused(make_bench, caplog, kind):
    bench = make_bench("file")
    told = []
    bench.hooks.on_success.append(lambda *arguments: told.append(arguments))
    bench.hooks.on_failure.append(lambda *arguments: told.append(arguments))
    begun, go_on = threading.Event(), threading.Event()

    def wait():
        begun.set()
        assert go_on.wait(PATIENCE)
        raise ValueError("with attempts left")

    async def wait_on_the_loop():
        await asyncio.to_thread(wait)

    bench.task("wait", wait if kind == "thread" else wait_on_the_loop, max_attempts=3)
    job = bench.put("wait")

    async def main():
        running = asyncio.create_task(bench.worker(until_empty=True).run())
        await asyncio.to_thread(begun.wait, PATIENCE)
        assert await bench.store.cancel(job)
        go_on.set()
        return await asyncio.wait_for(running, PATIENCE)

    report = asyncio.run(main())
    assert (report.succeeded, report.failed, report.retried) == (0, 0, 0)
    assert bench.status(job) == ["cancelled"]
    assert bench.history(job) == ["cancelled"]
    assert not told
    assert caplog.text.count("came too late and was refused") == 1


def test_cancelling_at_any_moment_leaves_one_winner(make_bench):
    """A hundred jobs cancelled around their end: what the store says and what the hooks were told must agree."""
    bench = make_bench("file")
    ended, cancelled = [], []
    bench.hooks.on_success.append(lambda job, result, seconds: ended.append(job.id))

    async def brief(number):
        await asyncio.sleep(number % 7 * 0.001)

    bench.task("brief", brief)
    ids = bench.put_many("brief", 100)

    async def main():
        worker = bench.worker(until_empty=True, async_concurrency=4)
        running = asyncio.create_task(worker.run())
        for job_id in ids:
            if await bench.store.cancel(job_id):
                cancelled.append(job_id)
            await asyncio.sleep(0.001)
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert sorted(ended + cancelled) == ids
    assert bench.status(*ended) == ["success"] * len(ended)
    assert bench.status(*cancelled) == ["cancelled"] * len(cancelled)


def test_a_stale_outcome_after_the_lease_was_lost_changes_nothing(make_bench, caplog):
    first, second = make_bench("file"), make_bench("file")
    begun, go_on = threading.Event(), threading.Event()

    def slow():
        begun.set()
        assert go_on.wait(PATIENCE)

    first.task("work", slow, store_result=True)
    second.task("work", lambda: "second", store_result=True)
    job = first.put("work", max_attempts=2)
    never = {"heartbeat": lambda held, lease: held.clear()}  # a keeper that renews nothing

    async def main():
        one = first.worker(store=Wrapped(first.store, never), lease=1.0, concurrency=1, reap_interval=3600.0)
        running = asyncio.create_task(one.run())
        await asyncio.to_thread(begun.wait, PATIENCE)
        other = second.worker(reap_interval=0.1)
        others = asyncio.create_task(other.run())
        await eventually(lambda: second.get(job).status.is_final)
        go_on.set()
        await eventually(lambda: "came too late and was refused" in caplog.text)
        other.stop()
        await others
        one.stop()
        await running

    with caplog.at_level(logging.INFO, "tinyjobs"):
        asyncio.run(main())
    assert second.result(job) == "second"
    assert second.history(job) == ["lost", "success"]
