"""A worker's end from inside the process: what is waited for and how long, and what goes back."""

import asyncio
import contextlib
import logging
import threading

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually


@contextlib.contextmanager
def locked(bench):
    """Somebody else holds the write lock of the file."""
    raw = bench.store._inline.connection()._raw
    raw.execute("BEGIN IMMEDIATE")
    try:
        yield raw
    finally:
        if raw.in_transaction:
            raw.rollback()


@pytest.mark.parametrize("when", ["idle", "claiming", "recording"])
def test_a_lock_that_is_never_let_go_does_not_keep_a_stopped_worker(make_bench, when, caplog):
    """The busy timeout is an hour here: only the stop's own deadline can end the wait."""
    bench, other = make_bench("file"), make_bench("file")
    bench.store._settings.busy_timeout = 3_600.0
    store = Wrapped(bench.store)
    begun, go_on = threading.Event(), threading.Event()
    bench.task("hold", lambda: (begun.set(), go_on.wait(PATIENCE)))

    async def main():
        worker = bench.worker(store=store, shutdown_timeout=0.5, poll=0.02)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: "next_due" in store.calls)
        if when == "recording":
            bench.put("hold")
            await asyncio.to_thread(begun.wait, PATIENCE)
        elif when == "claiming":
            bench.put("hold")
            await asyncio.to_thread(begun.wait, PATIENCE)
            go_on.set()
            await eventually(lambda: bench.counts() == {"success": 1})
        with locked(other) as raw:
            store.calls.clear()
            if when == "claiming":
                raw.execute("UPDATE tinyjobs_meta SET value = value")
                worker._hungry = True
                worker._parts.idler.wake()
                await eventually(lambda: "record" in store.calls)
            elif when == "recording":
                go_on.set()
                await eventually(lambda: "record" in store.calls)
            worker.stop()
            return await asyncio.wait_for(running, PATIENCE)

    report = asyncio.run(main())
    assert report.succeeded == (1 if when == "claiming" else 0)
    if when == "recording":
        assert bench.counts() == {"running": 1}
        assert "could not be recorded before the end" in caplog.text
    assert bench.store._settings.deadline is None


def test_a_second_call_of_stop_while_hooks_still_run_leaves_the_store_as_patient_as_it_was(make_bench):
    bench = make_bench("file")
    told, go_on = threading.Event(), threading.Event()
    bench.hooks.on_success.append(lambda *arguments: (told.set(), go_on.wait(PATIENCE)))
    bench.task("note", lambda: None)
    bench.put("note")

    async def main():
        worker = bench.worker()
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(told.wait, PATIENCE)
        worker.stop()
        await eventually(lambda: worker._parts is None or not worker._parts.keeper._thread.is_alive())
        worker.stop()
        await asyncio.sleep(0.05)
        go_on.set()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert bench.store._settings.deadline is None


def test_a_function_kept_past_the_timeout_gets_its_outcome_recorded(make_bench):
    bench = make_bench("file")
    begun, go_on = threading.Event(), threading.Event()
    told = []
    bench.hooks.on_success.append(lambda job, result, seconds: told.append(result))
    bench.task("hold", lambda: (begun.set(), go_on.wait(PATIENCE), "kept")[-1], store_result=True)
    job = bench.put("hold")

    async def main():
        worker = bench.worker(shutdown_timeout=0.0, lease=1.0)
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(begun.wait, PATIENCE)
        worker.stop()
        # Three leases: it must be renewed all the while, or the job would be anybody's.
        for _ in range(30):
            await asyncio.sleep(0.1)
            assert await bench.store.reap_expired() == []
        assert not running.done()
        go_on.set()
        return await asyncio.wait_for(running, PATIENCE)

    assert asyncio.run(main()).succeeded == 1
    assert (bench.status(job), bench.result(job), told) == (["success"], "kept", ["kept"])


def test_jobs_claimed_but_not_begun_go_back_as_if_they_had_not_been_taken(bench):
    """The claim's answer comes when the stop is forced already: nothing of it may start."""
    ran = []

    async def note(number):
        ran.append(number)

    bench.task("note", note)
    jobs = bench.put_many("note", 5)
    store = Wrapped(bench.store)
    worker = bench.worker(store=store)

    def force(recorded):
        if recorded.claimed is not None and recorded.claimed.jobs:
            worker.force()

    store.after["record"] = force
    report = asyncio.run(asyncio.wait_for(worker.run(), PATIENCE))
    assert report.forced
    assert not ran
    assert [(bench.get(job).status, bench.get(job).attempts) for job in jobs] == [("queued", 0)] * 5
    assert [bench.history(job) for job in jobs] == [[]] * 5


def test_a_forced_stop_reaches_jobs_of_the_same_claim_that_have_not_begun(bench):
    """The first of them is still in its first step, in which the second signal came."""
    ran = []

    async def note(number):
        ran.append(number)
        worker.force()

    bench.task("note", note)
    jobs = bench.put_many("note", 4)
    worker = bench.worker()
    asyncio.run(asyncio.wait_for(worker.run(), PATIENCE))
    assert ran == [0]
    assert bench.status(*jobs) == ["success", "queued", "queued", "queued"]
    assert [bench.get(job).attempts for job in jobs] == [1, 0, 0, 0]


def test_coroutines_cut_before_their_first_step_go_back_at_once(bench):
    async def note(number):
        await asyncio.sleep(PATIENCE)

    bench.task("note", note)
    jobs = bench.put_many("note", 5)

    async def main():
        worker = bench.worker()
        real = worker._begin

        def begin(*arguments):
            real(*arguments)
            worker._parts.coroutines.cut()  # none of them has run a step
            worker.stop()

        worker._begin = begin
        return await asyncio.wait_for(worker.run(), PATIENCE)

    asyncio.run(main())
    assert [(bench.get(job).status, bench.get(job).attempts) for job in jobs] == [("queued", 0)] * 5


def test_cancelling_a_worker_gives_its_coroutines_back_and_goes_on(bench):
    begun = asyncio.Event()

    async def long():
        begun.set()
        await asyncio.sleep(PATIENCE)

    bench.task("long", long)
    job = bench.put("long")

    async def main():
        running = asyncio.create_task(bench.worker().run())
        await begun.wait()
        running.cancel()
        await asyncio.wait([running])
        return running.cancelled()

    assert asyncio.run(main())
    assert (bench.status(job), bench.get(job).attempts, bench.history(job)) == (["queued"], 0, ["cancelled"])


def test_cancelling_a_worker_while_a_claim_is_on_its_way_leaves_nothing_running(bench):
    store = Wrapped(bench.store)
    bench.task("note", lambda number: None)
    jobs = bench.put_many("note", 4)

    async def main():
        under_way, go_on = asyncio.Event(), asyncio.Event()

        async def slow(recorded):
            under_way.set()
            await go_on.wait()

        store.after["record"] = slow
        running = asyncio.create_task(bench.worker(store=store).run())
        await under_way.wait()
        running.cancel()
        await asyncio.sleep(0)
        store.after.clear()
        go_on.set()
        await asyncio.wait([running])

    asyncio.run(main())
    assert set(bench.status(*jobs)) == {"queued"}
    assert {bench.get(job).attempts for job in jobs} == {0}


def test_a_timeout_cut_short_by_the_end_counts_as_cut_not_as_a_timeout(bench):
    begun = asyncio.Event()

    async def long():
        begun.set()
        await asyncio.sleep(PATIENCE)

    bench.task("long", long, timeout=PATIENCE)
    job = bench.put("long")

    async def main():
        worker = bench.worker()
        running = asyncio.create_task(worker.run())
        await begun.wait()
        worker.force()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert (bench.status(job), bench.history(job)) == (["queued"], ["cancelled"])


def test_what_is_waited_for_is_said(bench, caplog):
    begun, go_on = threading.Event(), threading.Event()
    bench.task("shop.export", lambda: (begun.set(), go_on.wait(PATIENCE)))
    bench.put("shop.export")

    async def main():
        worker = bench.worker(shutdown_timeout=0.0)
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(begun.wait, PATIENCE)
        worker.stop()
        await eventually(lambda: "cannot be stopped: shop.export" in caplog.text)
        go_on.set()
        await asyncio.wait_for(running, PATIENCE)

    with caplog.at_level(logging.INFO, "tinyjobs"):
        asyncio.run(main())
    assert "stopping, once what still runs has ended: 1 job" in caplog.text


def test_nothing_is_left_on_the_loop_after_a_run(bench):
    async def quick(number):
        await asyncio.sleep(0)

    bench.task("quick", quick)
    bench.task("note", lambda number: None)
    bench.put_many("quick", 10)
    bench.put_many("note", 10)

    async def main():
        for _ in range(3):
            await bench.worker(until_empty=True).run()
        await asyncio.sleep(0)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert not asyncio.run(main())
    ends = [thread for thread in threading.enumerate() if thread.name.startswith(("tinyjobs-job", "tinyjobs-leases"))]
    for thread in ends:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in ends)
