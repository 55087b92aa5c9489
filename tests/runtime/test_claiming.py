"""What a worker claims: into free slots only, of each kind for itself, so that neither kind starves the other."""

import asyncio
import threading

import pytest

from tests.runtime.conftest import PATIENCE, Tasks, Wrapped, eventually
from tinyjobs.core.options import TaskOptions
from tinyjobs.core.task import TaskSpec
from tinyjobs.runtime.slots import capacity


class Holding:
    """Tasks of both kinds that hold until they are let go, and count how many run at once."""

    def __init__(self, bench):
        self.go_on = threading.Event()
        self.let_go = asyncio.Event()
        self.running = {"thread": 0, "coroutine": 0}
        self.most = {"thread": 0, "coroutine": 0}
        self._lock = threading.Lock()
        bench.task("thread", self.thread)
        bench.task("coroutine", self.coroutine)

    def _count(self, kind, change):
        with self._lock:
            self.running[kind] += change
            self.most[kind] = max(self.most[kind], self.running[kind])

    def thread(self, number):
        self._count("thread", 1)
        assert self.go_on.wait(PATIENCE)
        self._count("thread", -1)

    async def coroutine(self, number):
        self._count("coroutine", 1)
        await self.let_go.wait()
        self._count("coroutine", -1)


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
def test_a_worker_claims_no_more_than_it_can_start(bench, kind):
    async def main():
        holding = Holding(bench)
        del bench.tasks["coroutine" if kind == "thread" else "thread"]
        bench.put_many(kind, 20)
        worker = bench.worker(concurrency=3, async_concurrency=3, until_empty=True)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: holding.running[kind] == 3)
        await asyncio.sleep(0.1)
        counts = bench.counts()
        holding.go_on.set()
        holding.let_go.set()
        await running
        return counts, holding.most[kind]

    assert asyncio.run(main()) == ({"running": 3, "queued": 17}, 3)
    assert bench.counts() == {"success": 20}


@pytest.mark.parametrize(("busy", "other"), [("thread", "coroutine"), ("coroutine", "thread")])
def test_jobs_that_fill_their_kind_of_slot_do_not_starve_the_other_kind(bench, busy, other):
    """A hundred jobs of one kind stand first, their slots are full, and the other kind's jobs behind them start."""

    async def main():
        holding = Holding(bench)
        bench.put_many(busy, 100)
        later = bench.put_many(other, 3)
        worker = bench.worker(concurrency=2, async_concurrency=4, until_empty=True)
        running = asyncio.create_task(worker.run())
        free = {"thread": holding.go_on, "coroutine": holding.let_go}
        await eventually(lambda: holding.running[busy] == (2 if busy == "thread" else 4))
        free[other].set()
        await eventually(lambda: bench.status(*later) == ["success"] * 3)
        still_held = holding.running[busy]
        free[busy].set()
        await running
        return still_held, holding.most

    still_held, most = asyncio.run(main())
    assert still_held == (2 if busy == "thread" else 4)
    assert most["thread"] <= 2
    assert most["coroutine"] <= 4
    assert bench.counts() == {"success": 103}


def test_mixed_jobs_all_run_in_bounded_slots(bench):
    async def main():
        holding = Holding(bench)
        holding.go_on.set()
        holding.let_go.set()
        for _ in range(50):
            bench.put_many("thread", 3)
            bench.put_many("coroutine", 5)
        await bench.worker(concurrency=2, async_concurrency=3, until_empty=True).run()
        return holding.most

    most = asyncio.run(main())
    assert most["thread"] <= 2
    assert most["coroutine"] <= 3
    assert bench.counts() == {"success": 400}
    assert {bench.get(job.id).attempts for job in asyncio.run(bench.store.list(limit=400)).jobs} == {1}


def test_two_workers_of_one_process_share_the_work_and_run_nothing_twice(bench):
    runs = []

    async def note(number):
        runs.append(number)
        await asyncio.sleep(0)

    bench.task("note", note)
    bench.put_many("note", 400)

    async def main():
        workers = [bench.worker(async_concurrency=4, until_empty=True) for _ in range(2)]
        return await asyncio.gather(*(worker.run() for worker in workers))

    reports = asyncio.run(main())
    assert sorted(runs) == list(range(400))
    assert sum(report.succeeded for report in reports) == 400
    assert min(report.succeeded for report in reports) > 0


def test_until_empty_waits_for_what_others_run_and_counts_what_waits_for_its_time(bench):
    begun, go_on = threading.Event(), threading.Event()
    bench.task("hold", lambda: (begun.set(), go_on.wait(PATIENCE)))
    bench.task("quick", lambda: None)
    bench.task("flaky", lambda: 1 / 0, max_attempts=2, retry_base=3_600.0)
    bench.put("hold", queue="a")

    async def main():
        other = bench.worker(queues=("a",))
        others = asyncio.create_task(other.run())
        await asyncio.to_thread(begun.wait, PATIENCE)
        for _ in range(3):
            bench.put("quick")
        bench.put("flaky")
        bench.put("quick", run_at=bench.clock.now() + 3_600.0)
        mine = asyncio.create_task(bench.worker(until_empty=True).run())
        await eventually(lambda: bench.counts().get("success") == 3)
        done, _ = await asyncio.wait([mine], timeout=0.3)
        assert not done
        go_on.set()
        report = await asyncio.wait_for(mine, PATIENCE)
        other.stop()
        await others
        return report

    report = asyncio.run(main())
    assert (report.succeeded, report.retried, report.left_delayed) == (3, 1, 2)


def test_until_empty_minds_only_the_queues_it_serves(bench):
    bench.task("note", lambda: None)
    bench.put("note", queue="mine")
    bench.put("note", queue="theirs")
    bench.put("note", queue="theirs", run_at=bench.clock.now() + 3_600.0)
    report = bench.run(queues=("mine",))
    assert (report.succeeded, report.left_delayed) == (1, 0)
    assert bench.counts() == {"queued": 2, "success": 1}


def test_what_a_job_enqueues_runs_before_an_until_empty_worker_ends(bench):
    def parent(depth):
        if depth:
            bench.put("parent", depth - 1)

    bench.task("parent", parent)
    bench.put("parent", 5)
    assert bench.run().succeeded == 6


def test_a_worker_stopped_before_it_runs_returns_at_once_and_runs_the_next_time(bench):
    bench.task("note", lambda: None)
    job = bench.put("note")
    worker = bench.worker(until_empty=True)
    worker.stop()
    assert asyncio.run(worker.run()).succeeded == 0
    assert bench.status(job) == ["queued"]
    assert asyncio.run(worker.run()).succeeded == 1


def test_a_worker_that_runs_cannot_be_run_a_second_time_beside_itself(bench):
    async def main():
        worker = bench.worker()
        running = asyncio.create_task(worker.run())
        await eventually(lambda: worker._parts is not None)
        with pytest.raises(RuntimeError, match="running already"):
            await worker.run()
        worker.stop()
        await running

    asyncio.run(main())


def test_a_forced_stop_does_not_reach_the_next_run(bench):
    async def main():
        holding = Holding(bench)
        (job,) = bench.put_many("coroutine", 1)
        worker = bench.worker(until_empty=True)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: holding.running["coroutine"])
        worker.force()
        first = await running
        assert bench.status(job) == ["queued"]
        holding.let_go.set()
        second = await worker.run()
        return first, second

    first, second = asyncio.run(main())
    assert (first.forced, first.succeeded) == (True, 0)
    assert (second.forced, second.succeeded) == (False, 1)


def test_every_worker_has_an_identity_of_its_own_with_the_host_and_process_unchanged(bench):
    names = {bench.worker().worker_id for _ in range(20)}
    assert len(names) == 20
    assert len({name.rpartition(":")[0] for name in names}) == 1


def test_a_job_that_cannot_be_started_goes_back_and_the_others_of_its_claim_run(bench, caplog):
    class Odd(Tasks):
        broken = True

        def names(self):
            return super().names() - {"odd"}  # found by its name alone, so that only the claim looks it up

        def find(self, name):
            if name == "odd" and self.broken:
                self.broken = False
                raise RuntimeError("the lookup broke")
            return super().find(name)

    bench.tasks = Odd()
    bench.task("note", lambda number: None)
    bench.task("odd", lambda: None)
    bench.put_many("note", 3)
    odd = bench.put("odd")
    bench.put_many("note", 3)
    assert bench.run().succeeded == 7
    assert bench.get(odd).attempts == 1
    assert "cannot be started" in caplog.text


def test_claims_stop_at_once_when_a_stop_is_asked_for(bench):
    """The stop comes while a write is on its way; what that write brings still runs, and nothing more is claimed."""
    store = Wrapped(bench.store)
    bench.task("note", lambda number: None)
    bench.put_many("note", 50)
    worker = bench.worker(store=store, concurrency=5)
    requests = []

    def stop_in_the_second(outcomes, request=None):
        requests.append(request)
        if len(requests) == 2:
            worker.stop()

    store.before["record"] = stop_in_the_second
    report = asyncio.run(worker.run())
    assert report.succeeded <= 10
    assert bench.counts() == {"success": report.succeeded, "queued": 50 - report.succeeded}
    assert not any(requests[2:])


def spec(name, is_coroutine):
    return TaskSpec(name=name, call=print, options=TaskOptions(), is_coroutine=is_coroutine)


@pytest.mark.parametrize(
    ("kinds", "coroutines", "threads", "unconfirmed", "expected"),
    [
        ("ct", 10, 4, 0, (10, ("t", 4))),
        ("ct", 2, 4, 0, (4, ("c", 2))),
        ("ct", 10, 0, 0, (10, ("t", 0))),
        ("ct", 10, -3, 0, (10, ("t", 0))),
        ("ct", 0, 0, 0, (0, ("t", 0))),
        ("c", 10, 4, 0, (10, None)),
        ("t", 10, 4, 0, (4, None)),
        ("t", 10, -2, 0, (0, None)),
        ("", 10, 4, 0, (10, None)),
        ("ct", 10, 4, 12, (2, ("t", 4))),
        ("ct", 10, 4, 14, (0, ("t", 4))),
        ("ct", 10, 4, 99, (0, ("t", 4))),
    ],
)
def test_the_capacity_of_free_slots(kinds, coroutines, threads, unconfirmed, expected):
    tasks = Tasks({kind: spec(kind, kind == "c") for kind in kinds})
    limit, room = capacity(tasks, coroutines=coroutines, threads=threads, unconfirmed=unconfirmed, slots=14)
    assert (limit, room and (*room.tasks, room.free)) == expected
