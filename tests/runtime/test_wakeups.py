"""What wakes an idle worker: another process's commit, a nudge in its own, a delayed job's time; never its own work."""

import asyncio
import os
import sys
import textwrap
import threading

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.backends.sqlite import watch as watch_module
from tinyjobs.backends.sqlite.watch import FileWatch
from tinyjobs.runtime.idle import Idler, Look
from tinyjobs.runtime.settings import WorkerSettings

#: So rare that a test which depends on it fails.
NEVER = 3_600.0


@pytest.fixture(params=["inotify", "looked at"])
def kind_of_watch(request, monkeypatch):
    """The ways a change of the file comes to notice: the system tells, or there is no inotify."""
    if request.param == "looked at":

        def no_inotify():
            raise OSError("not here")

        monkeypatch.setattr(watch_module, "Inotify", no_inotify)
    return request.param


def in_another_process(store, program):
    """Run the program over its own client of the store, in a process of its own."""
    start = f"""
        import time
        from tinyjobs.app.facade import TinyJobs
        app = TinyJobs("sqlite:///{store.path}")
    """
    text = textwrap.dedent(start) + textwrap.dedent(program)
    return asyncio.create_subprocess_exec(sys.executable, "-c", text)


async def hush(worker):
    """Skip the short polls after the start, so that only a wake-up or a time that has come leads to a look."""
    await eventually(lambda: worker._parts is not None)
    worker._parts.idler._delay = NEVER
    await eventually(lambda: worker._parts.idler._is_idle.is_set())
    worker._parts.idler._delay = NEVER
    worker._parts.idler._look_at = asyncio.get_running_loop().time() + NEVER
    worker._parts.idler.wake()
    await asyncio.sleep(0.05)  # for the listener to begin


async def with_idle_worker(bench, body, **settings):
    worker = bench.worker(poll=NEVER, **settings)
    running = asyncio.create_task(worker.run())
    await hush(worker)
    try:
        await asyncio.wait_for(body(worker), 3 * PATIENCE)
    finally:
        worker.stop()
        await running


def test_a_job_of_another_process_starts_though_polling_is_an_hour_away(make_bench, kind_of_watch):
    bench = make_bench("file")
    ran = threading.Event()
    bench.task("note", ran.set)

    async def body(worker):
        for _ in range(3):
            process = await in_another_process(bench.store, "app.send('note')")
            assert await process.wait() == 0
            assert await asyncio.to_thread(ran.wait, PATIENCE)
            ran.clear()
            await hush(worker)

    asyncio.run(with_idle_worker(bench, body))


def test_a_delayed_job_of_another_process_starts_when_its_time_comes(make_bench, kind_of_watch):
    bench = make_bench("file")
    ran = threading.Event()
    bench.task("note", ran.set)

    async def body(worker):
        process = await in_another_process(bench.store, "app.send('note', delay=0.5)")
        assert await process.wait() == 0
        assert await asyncio.to_thread(ran.wait, PATIENCE)

    asyncio.run(with_idle_worker(bench, body))
    (job,) = asyncio.run(bench.store.list()).jobs
    assert 0.0 <= job.started_at - job.run_at < 30.0  # it was not found by chance: polling is an hour away


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_every_worker_of_a_process_hears_of_a_job(make_bench, kind):
    """Two workers over one store on one loop, each serving a queue: a wake-up must reach the right one."""
    bench = make_bench(kind)
    ran = {"a": threading.Event(), "b": threading.Event()}
    bench.task("note", lambda queue: ran[queue].set())

    async def main():
        workers = [bench.worker(poll=NEVER, queues=(queue,)) for queue in "ab"]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        for worker in workers:
            await hush(worker)
        for queue in "abbaab":
            ran[queue].clear()
            await bench.store.enqueue(bench.job("note", queue, queue=queue))
            assert await asyncio.to_thread(ran[queue].wait, PATIENCE)
            for worker in workers:
                await hush(worker)
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)

    asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


@pytest.mark.parametrize("loops", [1, 2])
def test_every_worker_of_a_process_hears_of_another_processs_job(make_bench, loops, kind_of_watch):
    """The same over a file that another process writes to, with the workers on one loop or on two."""
    bench, writer = make_bench("file"), make_bench("file")
    ran = {"a": threading.Event(), "b": threading.Event()}
    bench.task("note", lambda queue: ran[queue].set())
    workers = [bench.worker(poll=NEVER, queues=(queue,)) for queue in "ab"]
    quiet = threading.Barrier(loops + 1, timeout=PATIENCE)

    async def run(mine):
        running = [asyncio.create_task(worker.run()) for worker in mine]
        for _ in range(7):
            for worker in mine:
                await hush(worker)
            await asyncio.to_thread(quiet.wait)
            await asyncio.to_thread(quiet.wait)
        for worker in mine:
            worker.stop()
        await asyncio.gather(*running)

    parts = [workers] if loops == 1 else [[worker] for worker in workers]
    threads = [threading.Thread(target=lambda mine=mine: asyncio.run(run(mine))) for mine in parts]
    for thread in threads:
        thread.start()
    missed = []
    for queue in "abbaab":
        quiet.wait()
        ran[queue].clear()
        writer.put("note", queue, queue=queue)  # a connection of another store object, as another process has
        if not ran[queue].wait(PATIENCE / 2):
            missed.append(queue)
        quiet.wait()
    quiet.wait()
    quiet.wait()
    for thread in threads:
        thread.join(PATIENCE)
    assert not missed


def test_a_nudge_between_two_waits_is_not_lost(bench):
    async def main():
        store = bench.store
        while await store.wait_for_jobs(0.05):
            pass  # the first one learns how the file stands
        store.nudge()
        assert await store.wait_for_jobs(PATIENCE)
        assert not await store.wait_for_jobs(0.01)

    asyncio.run(main())


def test_a_commit_between_two_waits_is_not_lost(make_bench, kind_of_watch):
    bench, other = make_bench("file"), make_bench("file")

    async def main():
        store = bench.store
        while await store.wait_for_jobs(0.1):
            pass
        for _ in range(5):
            other.put("note")
            assert await store.wait_for_jobs(PATIENCE)
            assert not await store.wait_for_jobs(0.05)

    asyncio.run(main())


def test_own_commits_wake_nobody(make_bench, kind_of_watch):
    bench = make_bench("file")

    async def main():
        store = bench.store
        while await store.wait_for_jobs(0.1):
            pass
        waiting = asyncio.create_task(store.wait_for_jobs(0.6))
        for _ in range(10):
            await store.cancel("no such job")  # a write transaction, and no nudge
            await store.register_schedules([])
            await store.record([], None)
            await asyncio.sleep(0.02)
        return await waiting

    assert asyncio.run(main()) is False


def test_an_idle_worker_looks_a_bounded_number_of_times_and_never_writes(make_bench):
    """With the write lock held by somebody else all the while, it looks as ever and meets no trouble."""
    bench, other = make_bench("file"), make_bench("file")
    store = Wrapped(bench.store)
    bench.task("note", lambda: None)
    settings = {"store": store, "poll": 0.02, "reap_interval": 0.1}
    problems = []
    bench.hooks.on_error.append(lambda name, error: problems.append((name, error)))

    async def main():
        worker = bench.worker(**settings)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: "next_due" in store.calls and "reap_expired" in store.calls)
        # The one sweep after the start writes that it was made.
        await eventually(lambda: store.calls.count("purge") == len(worker.engine.retention.rules))
        raw = other.store._inline.connection()._raw
        raw.execute("BEGIN IMMEDIATE")
        store.calls.clear()
        await eventually(lambda: store.calls.count("next_due") >= 20 and store.calls.count("reap_expired") >= 3)
        seen = list(store.calls)
        raw.rollback()
        worker.stop()
        await running
        return seen

    seen = asyncio.run(main())
    assert not problems
    assert set(seen) <= {"next_due", "reap_expired", "end_unstarted", "wait_for_jobs"}
    # Each look is one read; a wake-up that is no change must not lead to looks of its own.
    assert seen.count("wait_for_jobs") <= 2


def test_the_polls_of_an_idle_worker_grow_apart(make_bench):
    """From 5 ms doubling to the ceiling: five looks in the first 0.2 s, and not two hundred a second for ever."""
    bench = make_bench("file")
    store = Wrapped(bench.store)
    bench.task("note", lambda: None)

    async def main():
        worker = bench.worker(store=store, poll=NEVER)
        running = asyncio.create_task(worker.run())
        delays = []
        store.after["next_due"] = lambda answer: delays.append(worker._parts.idler._delay) or None
        await eventually(lambda: len(delays) == 5)
        worker.stop()
        await running
        return delays

    delays = asyncio.run(main())
    assert delays == [pytest.approx(delays[0] * 2**place) for place in range(5)]
    assert delays[0] <= 0.02


def test_jobs_a_worker_has_no_thread_for_do_not_make_it_write_over_and_over(make_bench):
    """All threads busy, plain functions waiting, coroutine slots free: looks find jobs that no claim can take."""
    bench = make_bench("file")
    store = Wrapped(bench.store)
    begun, go_on = threading.Event(), threading.Event()

    async def quick():
        return None

    bench.task("hold", lambda number: (begun.set(), go_on.wait(PATIENCE)))
    bench.task("quick", quick)
    bench.put_many("hold", 5)

    async def main():
        worker = bench.worker(store=store, poll=0.2, concurrency=1, until_empty=True)
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(begun.wait, PATIENCE)
        store.calls.clear()
        await asyncio.sleep(1.0)
        writes = store.calls.count("record")
        # And a coroutine job behind them all starts at once, by its nudge.
        job = (await bench.store.enqueue(bench.job("quick"))).id
        await eventually(lambda: bench.status(job) == ["success"])
        go_on.set()
        await asyncio.wait_for(running, PATIENCE)
        return writes

    # 5, 10, … 160 ms and then every 200 ms; without backing off it would be two hundred.
    assert asyncio.run(main()) <= 15
    assert bench.counts() == {"success": 6}


def test_outcomes_that_trickle_in_do_not_put_the_next_look_off(make_bench):
    """A store without wake-ups: jobs end more often than the poll, and a new one must be found all the same."""
    bench = make_bench("file")
    store = Wrapped(bench.store)

    async def deaf(timeout, queues):
        await asyncio.Event().wait()

    store.before["wait_for_jobs"] = deaf
    found = threading.Event()

    async def end_after(number):
        await asyncio.sleep(0.03 * (number + 1))

    bench.task("end_after", end_after)
    bench.task("found", found.set)
    bench.put_many("end_after", 60)

    async def main():
        worker = bench.worker(store=store, poll=0.1)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.counts().get("success", 0) >= 10)
        other = bench.job("found")
        await bench.store.enqueue(other)
        await asyncio.to_thread(found.wait, PATIENCE)
        still_trickling = bench.counts().get("running", 0)
        worker.force()
        await running
        return still_trickling

    assert asyncio.run(main()) >= 10


# --- the watch itself -------------------------------------------------------------------------------------------------


class Heard:
    def __init__(self, path):
        self.count = 0
        self.watch = FileWatch(str(path), self._changed)

    def _changed(self):
        self.count += 1

    async def more(self, action):
        before = self.count
        action()
        await eventually(lambda: self.count > before)


def test_a_watch_follows_a_file_that_is_made_deleted_and_made_again(tmp_path, kind_of_watch):
    path, wal = tmp_path / "jobs.db", tmp_path / "jobs.db-wal"

    async def main():
        heard = Heard(path)
        heard.watch.join()
        try:
            await heard.more(lambda: wal.write_bytes(b"1"))
            await heard.more(lambda: wal.write_bytes(b"12"))
            await heard.more(wal.unlink)
            await heard.more(lambda: wal.write_bytes(b"1"))
            await heard.more(lambda: os.replace(_written(tmp_path / "other", b"123"), wal))
            await heard.more(lambda: wal.write_bytes(b"1234"))
            assert heard.watch.is_armed == (kind_of_watch == "inotify")
        finally:
            heard.watch.leave()
            heard.watch.close()

    asyncio.run(main())


def test_a_watch_nobody_waits_on_costs_nothing_and_forgets_nothing(tmp_path):
    path, wal = tmp_path / "jobs.db", tmp_path / "jobs.db-wal"
    wal.write_bytes(b"")

    async def main():
        heard = Heard(path)
        heard.watch.join()
        await eventually(lambda: heard.watch.is_armed)
        heard.watch.leave()
        before = heard.count
        wal.write_bytes(b"1")
        await asyncio.sleep(0.05)
        assert heard.count == before
        heard.watch.join()
        await eventually(lambda: heard.count > before)
        heard.watch.leave()
        heard.watch.close()

    asyncio.run(main())


def test_a_watch_that_proves_deaf_looks_at_the_file_instead(tmp_path, monkeypatch):
    wal = tmp_path / "jobs.db-wal"
    monkeypatch.setattr(watch_module.Inotify, "read", lambda inotify: (False, False))

    async def main():
        heard = Heard(tmp_path / "jobs.db")
        heard.watch.join()
        await heard.more(lambda: wal.write_bytes(b"1"))
        assert not heard.watch.is_armed
        heard.watch.leave()

    asyncio.run(main())


def test_no_file_of_the_watch_is_left_behind(make_bench, tmp_path):
    bench = make_bench("file")

    async def main():
        await bench.store.wait_for_jobs(0.05)

    asyncio.run(main())
    assert {path.name for path in tmp_path.iterdir()} <= {"jobs.db", "jobs.db-wal", "jobs.db-shm"}


def _written(path, data):
    path.write_bytes(data)
    return path


def test_a_wake_up_while_no_slot_is_free_leads_to_a_look_once_one_is(bench):
    async def main():
        idler = Idler(bench.engine(), WorkerSettings(poll=NEVER))
        idler._delay = NEVER
        idler.found_nothing()
        listener = asyncio.create_task(idler.listen())
        full = asyncio.create_task(idler.wait(can_claim=False))
        async with asyncio.timeout(PATIENCE):
            while not full.done():
                bench.put("note")
                await asyncio.sleep(0.02)
            assert await full is Look.NONE
            assert await idler.wait(can_claim=True) is Look.WORK
        listener.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("freely", [True, False])
def test_a_woken_worker_claims_at_once_where_that_costs_no_more_than_a_look(bench, monkeypatch, freely):
    bench.task("note", lambda: None)
    store = Wrapped(bench.store)
    monkeypatch.setattr(bench.store, "claims_freely", lambda: freely)

    async def main():
        idler = Idler(bench.engine(store), WorkerSettings(poll=NEVER))
        idler._delay = NEVER
        idler.found_nothing()
        listener = asyncio.create_task(idler.listen())
        waiting = asyncio.create_task(idler.wait(can_claim=True))
        async with asyncio.timeout(PATIENCE):
            while not waiting.done():
                bench.put("note")
                await asyncio.sleep(0.02)
            assert await waiting is Look.WORK
        assert store.calls.count("next_due") == (0 if freely else 1)
        listener.cancel()
        # A look that comes due by itself is one on every store.
        idler._was_told, idler._is_signalled = False, True
        assert await idler.wait(can_claim=True) is Look.WORK
        assert store.calls.count("next_due") >= 1

    asyncio.run(main())
