"""What becomes of what is old: who deletes it, how much at once, and how it goes on after trouble and a stop."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core.errors import StoreBusyError
from tinyjobs.core.inline import finish
from tinyjobs.core.retention import BATCH, KEEP_EVERYTHING, Retention
from tinyjobs.core.status import JobStatus
from tinyjobs.runtime import sweeping
from tinyjobs.runtime.sweeping import CHECK_INTERVAL, SWEEP_INTERVAL, ResultSweeper, Sweeper

WEEK = 7 * 86_400.0


def end(bench, count, status="success", task="note"):
    """So many jobs that end now, in that way."""
    if "note" not in bench.tasks:
        bench.task("note", lambda number: number, store_result=True)
        bench.task("bad", _fail)
    ids = bench.put_many({"failed": "bad"}.get(status, task), count)
    if status == "cancelled":
        for job_id in ids:
            finish(bench.store.inline().cancel(job_id))
    else:
        bench.run(concurrency=20)
    return ids


def _fail(number):
    raise ValueError(number)


def old(bench, frozen, count, status="success", age=2 * WEEK):
    ids = end(bench, count, status)
    frozen.advance(age)
    return ids


def swept(bench, store=None, **engine):
    asyncio.run(Sweeper(bench.engine(store, **engine)).look())


@pytest.fixture
def old_bench(make_bench, frozen):
    # Nothing is deleted by the workers that make the jobs end.
    return make_bench("file", clock=frozen, retention=KEEP_EVERYTHING)


def test_each_status_has_its_own_time(old_bench, frozen):
    bench = old_bench
    for status in ("success", "failed", "cancelled"):
        end(bench, 3, status)
    frozen.advance(WEEK - 1)
    swept(bench, retention=Retention())
    assert bench.counts() == {"success": 3, "failed": 3, "cancelled": 3}
    frozen.advance(SWEEP_INTERVAL)
    swept(bench, retention=Retention())
    assert bench.counts() == {"failed": 3}
    frozen.advance(30 * 86_400.0)
    swept(bench, retention=Retention(failed=0))
    assert bench.counts() == {"failed": 3}
    frozen.advance(SWEEP_INTERVAL)
    swept(bench, retention=Retention())
    assert bench.counts() == {}


def test_a_worker_sweeps_and_says_nothing_about_it(make_bench, frozen, caplog):
    bench = make_bench("file", clock=frozen, retention=KEEP_EVERYTHING)
    old(bench, frozen, 3)
    kept = end(bench, 2)

    async def main():
        worker = bench.worker(engine={"retention": Retention()})
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.counts() == {"success": 2})
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert bench.status(*kept) == ["success"] * 2
    assert caplog.text == ""


def test_nothing_is_asked_where_everything_is_kept(old_bench, frozen):
    store = Wrapped(old_bench.store)
    old(old_bench, frozen, 3)
    asyncio.run(Sweeper(old_bench.engine(store)).run())
    assert store.calls == []


def test_one_of_many_workers_sweeps_an_interval(old_bench, frozen):
    bench = old_bench
    for _ in range(3):
        old(bench, frozen, 1)
        store = Wrapped(bench.store)

        async def main(store=store):
            engines = [bench.engine(store, retention=Retention()) for _ in range(40)]
            await asyncio.gather(*(Sweeper(engine).look() for engine in engines))

        asyncio.run(main())
        assert store.calls.count("claim_sweep") == 40
        # One batch for each status, asked for by one of them.
        assert store.calls.count("purge") == 3
        assert bench.counts() == {}


def test_a_sweep_goes_by_batches_with_every_status_in_turn(old_bench, frozen):
    bench = old_bench
    old(bench, frozen, BATCH + 10)
    old(bench, frozen, 5, "cancelled")
    asked = []
    store = Wrapped(bench.store, {"purge": lambda status, age, limit: asked.append((status.value, limit))})
    swept(bench, store, retention=Retention(failed=0))
    assert asked == [("success", BATCH), ("cancelled", BATCH), ("success", BATCH)]
    assert bench.counts() == {}


def test_who_reached_the_most_a_sweep_may_take_goes_on_at_once(old_bench, frozen, monkeypatch):
    monkeypatch.setattr(sweeping, "MOST", 20)
    bench = old_bench
    old(bench, frozen, 50)
    old(bench, frozen, 3, "cancelled")
    asked = []
    store = Wrapped(bench.store, {"purge": lambda status, age, limit: asked.append((status.value, limit))})
    swept(bench, store, retention=Retention())
    assert bench.counts() == {}
    assert store.calls.count("claim_sweep") == 1
    # Twice it was enough; the third sweep found the rest of both.
    assert [limit for status, limit in asked if status == "success"] == [20, 20, 20]
    assert ("cancelled", 10) in asked


def test_a_pass_that_fails_is_told_once_and_goes_on_where_it_was(old_bench, frozen, caplog):
    bench = old_bench
    old(bench, frozen, BATCH + 5)
    failures = iter([None, StoreBusyError("locked"), StoreBusyError("locked"), None])
    reported = []
    bench.hooks.on_error.append(lambda loop, error: reported.append((loop, str(error))))

    def fail_sometimes(*arguments):
        if (failure := next(failures, None)) is not None:
            raise failure

    store = Wrapped(bench.store, {"purge": fail_sometimes})

    async def main():
        running = asyncio.create_task(Sweeper(bench.engine(store, retention=Retention())).run())
        async with asyncio.timeout(PATIENCE):
            while bench.counts():
                frozen.advance(1.0)
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with caplog.at_level("INFO"):
        asyncio.run(main())
    assert reported == [("upkeep", "locked")] * 2
    assert caplog.text.count("old jobs could not be deleted") == 1
    assert store.calls.count("claim_sweep") == 1, "it was told to sweep, and nobody else is for an hour"


def test_a_stop_does_not_wait_for_the_end_of_a_sweep(old_bench, frozen):
    bench = old_bench
    old(bench, frozen, 5)
    store = Wrapped(bench.store)

    async def main():
        sweeping_now = asyncio.Event()

        async def hang(*arguments):
            sweeping_now.set()
            await asyncio.Event().wait()

        store.before["purge"] = hang
        worker = bench.worker(store=store, engine={"retention": Retention()})
        running = asyncio.create_task(worker.run())
        await asyncio.wait_for(sweeping_now.wait(), PATIENCE)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert bench.counts() == {"success": 5}


def test_jobs_run_beside_a_sweep(make_bench):
    """On one store and one thread to it, the claims get their turn after every batch."""
    bench = make_bench("file", retention=KEEP_EVERYTHING)
    end(bench, 3_000)
    ended, order = threading.Event(), []
    bench.task("new", lambda: (order.append("run"), ended.set()))
    store = Wrapped(bench.store)

    def send_one(status, age, limit):
        order.append("purge")
        if order == ["purge"]:
            bench.put("new")

    store.before["purge"] = send_one

    async def main():
        worker = bench.worker(store=store, engine={"retention": Retention(success=1e-9, failed=0, cancelled=0)})
        running = asyncio.create_task(worker.run())
        await eventually(ended.is_set)
        await eventually(lambda: order.count("purge") >= 6)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert order.index("run") < 5


# --- results --------------------------------------------------------------------------------------------------------


def results(bench, ids):
    return [bench.get(job_id).result is not None for job_id in ids]


def test_a_result_goes_when_its_time_is_over(old_bench, frozen):
    bench = old_bench
    bench.task("short", lambda number: number, store_result=True, result_ttl=60)
    short, kept = end(bench, 3, task="short"), end(bench, 2)
    sweeper = ResultSweeper(bench.engine())
    asyncio.run(sweeper.look())
    assert results(bench, short) == [True] * 3
    frozen.advance(60)
    asyncio.run(sweeper.look())
    assert results(bench, short) == [False] * 3
    assert results(bench, kept) == [True] * 2
    assert bench.status(*short) == ["success"] * 3
    assert [bench.history(job_id) for job_id in short] == [["success"]] * 3


def test_only_what_ended_since_is_looked_through_again(old_bench, frozen):
    bench = old_bench
    bench.task("short", lambda number: number, store_result=True, result_ttl=60)
    seen = []
    store = Wrapped(bench.store, {"drop_results": lambda name, age, *, since, limit: seen.append((name, since))})
    sweeper = ResultSweeper(bench.engine(store))
    first = end(bench, BATCH + 1, task="short")
    began = frozen.now()
    frozen.advance(100)
    asyncio.run(sweeper.look())
    assert not any(results(bench, first))
    assert [where for _, where in seen] == [0.0, began, began + 40]
    seen.clear()
    second = end(bench, 1, task="short")
    frozen.advance(1_000)
    asyncio.run(sweeper.look())
    assert not any(results(bench, second))
    assert seen[0] == ("short", began + 40 - CHECK_INTERVAL)


def test_a_task_whose_results_cannot_be_dropped_keeps_no_other_waiting(old_bench, frozen, caplog):
    bench = old_bench
    for name in ("a", "b", "c"):
        bench.task(name, lambda number: number, store_result=True, result_ttl=60)
    ids = {name: end(bench, 2, task=name) for name in ("a", "b", "c")}
    frozen.advance(60)

    def fail_for_b(name, *arguments, **options):
        if name == "b":
            raise StoreBusyError("locked")

    sweeper = ResultSweeper(bench.engine(Wrapped(bench.store, {"drop_results": fail_for_b})))
    with pytest.raises(StoreBusyError):
        asyncio.run(sweeper.look())
    assert {name: any(results(bench, ids[name])) for name in ids} == {"a": False, "b": True, "c": False}


def test_a_worker_drops_results(old_bench, frozen):
    bench = old_bench
    bench.task("short", lambda number: number, store_result=True, result_ttl=60)
    (job_id,) = end(bench, 1, task="short")
    frozen.advance(60)

    async def main():
        worker = bench.worker()
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.get(job_id).result is None)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert bench.get(job_id).status is JobStatus.SUCCESS


def test_every_worker_keeps_tallies_small(make_bench, frozen):
    """Rows of many workers and minutes become one a queue, and later one in all; the counts stay what they are."""
    bench = make_bench("file", clock=frozen, retention=KEEP_EVERYTHING)
    for _ in range(3):
        end(bench, 2)
        frozen.advance(60)
    frozen.advance(2 * 86_400.0)
    assert tally_rows(bench) == 3

    async def main():
        worker = bench.worker()
        running = asyncio.create_task(worker.run())
        await eventually(lambda: tally_rows(bench) == 1)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert bench.counts() == {"success": 6}


def tally_rows(bench):
    with closing(sqlite3.connect(bench.store.path)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM tinyjobs_tallies").fetchall()
    return count
