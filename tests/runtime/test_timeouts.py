"""Timeouts: hard for coroutines, which are cancelled; soft for functions in threads, which keep their slot."""

import asyncio
import threading

from tests.runtime.conftest import PATIENCE, eventually
from tinyjobs.core.context import current_job
from tinyjobs.core.errors import JobTimeout


def test_a_coroutine_over_its_timeout_is_cancelled_and_its_clean_up_runs(bench):
    cleaned, told = [], []

    async def slow():
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            await asyncio.sleep(0)
            cleaned.append(1)

    bench.hooks.on_failure.append(lambda job, error, will_retry: told.append((type(error), will_retry)))
    bench.task("slow", slow, timeout=0.05)
    job = bench.put("slow")
    report = bench.run()
    assert (report.failed, cleaned, told) == (1, [1], [(JobTimeout, False)])
    assert bench.history(job) == ["timeout"]
    assert bench.get(job).last_error.startswith("JobTimeout: ran longer than its timeout of 0.05 s")


def test_a_timeout_error_of_the_tasks_own_is_a_failure(bench):
    async def own():
        raise TimeoutError("somebody else's")

    async def inner():
        async with asyncio.timeout(0.01):
            await asyncio.sleep(PATIENCE)

    bench.task("own", own, timeout=60.0)
    bench.task("inner", inner, timeout=60.0)
    jobs = [bench.put("own"), bench.put("inner")]
    bench.run()
    assert [bench.history(job) for job in jobs] == [["failed"], ["failed"]]


def test_a_coroutine_that_returns_in_spite_of_its_cancellation_has_succeeded(bench):
    async def stubborn():
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            return "all the same"

    bench.task("stubborn", stubborn, timeout=0.05, store_result=True)
    job = bench.put("stubborn")
    bench.run()
    assert (bench.status(job), bench.result(job)) == (["success"], "all the same")


def test_a_timeout_is_tried_again_like_any_failure(bench):
    runs = []

    async def slow_once():
        runs.append(1)
        if len(runs) == 1:
            await asyncio.sleep(PATIENCE)

    bench.task("slow_once", slow_once, timeout=0.05, max_attempts=2, retry_base=0.001)
    job = bench.put("slow_once")

    async def main():
        worker = bench.worker(poll=0.01)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.get(job).status.is_final)
        worker.stop()
        await running

    asyncio.run(main())
    assert bench.history(job) == ["timeout", "success"]


def test_a_function_over_its_timeout_is_recorded_and_keeps_its_slot_until_it_returns(bench, caplog):
    begun, go_on = threading.Event(), threading.Event()
    bench.task("stuck", lambda: (begun.set(), go_on.wait(PATIENCE)), timeout=0.05)
    bench.task("quick", lambda: None)
    stuck, quick = bench.put("stuck"), bench.put("quick")

    async def main():
        worker = bench.worker(concurrency=1, until_empty=True)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.status(stuck) == ["failed"])
        await asyncio.sleep(0.2)
        waiting = bench.status(quick)
        assert "keeps its slot" in caplog.text
        go_on.set()
        await asyncio.wait_for(running, PATIENCE)
        return waiting

    assert asyncio.run(main()) == ["queued"]
    assert bench.history(stuck) == ["timeout"]
    assert bench.status(quick) == ["success"]
    assert "its slot is free" in caplog.text


def test_a_job_its_worker_has_no_thread_for_is_left_to_others(make_bench):
    """Two runaway functions hold both threads of one worker; what is queued runs on the other."""
    first, second = make_bench("file"), make_bench("file")
    begun, go_on = threading.Semaphore(0), threading.Event()
    for bench in (first, second):
        bench.task("stuck", lambda: (begun.release(), go_on.wait(PATIENCE)), timeout=0.05)
        bench.task("quick", lambda number: None)

    async def main():
        stuck = [first.put("stuck") for _ in range(2)]
        one = first.worker(concurrency=2)
        running = asyncio.create_task(one.run())
        await eventually(lambda: first.status(*stuck) == ["failed"] * 2)
        jobs = first.put_many("quick", 6)
        other = second.worker(concurrency=2)
        others = asyncio.create_task(other.run())
        await eventually(lambda: first.status(*jobs) == ["success"] * 6)
        owners = {first.get(job).worker_id for job in jobs}
        go_on.set()
        one.stop()
        other.stop()
        await asyncio.gather(running, others)
        return owners == {other.worker_id}

    assert asyncio.run(main())


def test_fifty_timeouts_in_a_row_leave_every_slot_alive(bench):
    """Each of them in a thread that comes back late; then twenty good jobs, on two slots, both of them at once."""
    meet = threading.Barrier(2, timeout=PATIENCE)
    told: dict[str, threading.Event] = {}
    bench.hooks.on_failure.append(lambda job, error, will_retry: told[job.id].set())

    def late():
        # Until its timeout is recorded, however long a busy machine takes to notice it.
        assert told[current_job().id].wait(PATIENCE)

    bench.task("late", late, timeout=0.005)
    bench.task("meet", lambda number: meet.wait() and None)
    late_jobs = [bench.put("late") for _ in range(50)]
    told.update((job, threading.Event()) for job in late_jobs)
    good = bench.put_many("meet", 20)
    report = bench.run(concurrency=2)
    assert (report.failed, report.succeeded) == (50, 20)
    assert {tuple(bench.history(job)) for job in late_jobs} == {("timeout",)}
    assert bench.status(*good) == ["success"] * 20


def test_an_absurdly_long_timeout_is_no_timeout_at_all(bench):
    async def quick():
        return 1

    for number, timeout in enumerate([1e12, 1e300, 0.5]):
        bench.task(f"thread {number}", lambda: 1, timeout=timeout)
        bench.task(f"coroutine {number}", quick, timeout=timeout)
        bench.put(f"thread {number}")
        bench.put(f"coroutine {number}")
    assert bench.run().succeeded == 6
