"""Leases: renewed from a thread of their own, for as long as their owner lives and its loop answers."""

import asyncio
import logging
import threading
import time

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core.errors import StoreBusyError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held
from tinyjobs.runtime.leases import LeaseKeeper
from tinyjobs.runtime.settings import WorkerSettings


class Loop:
    """An event loop as the keeper sees it: answers at once, or not at all."""

    answers = True

    def call_soon_threadsafe(self, callback, *args):
        if self.answers:
            callback(*args)


def claimed(bench, count=1, lease=60.0):
    for _ in range(count):
        bench.put("note")
    request = ClaimRequest(worker_id="here", limit=count, lease=lease)
    jobs = finish(bench.store.inline().claim(request)).jobs
    return [Held(job.id, job.claims) for job in jobs]


@pytest.fixture
def still(make_bench, frozen):
    return make_bench(clock=frozen)


def make_keeper(bench, held, *, running=None, loop=None, store=None, **settings):
    return LeaseKeeper(
        bench.engine(store),
        WorkerSettings(**settings),
        loop or Loop(),
        lambda: held,
        lambda: held if running is None else running,
    )


def expiry(bench, entry):
    return bench.get(entry.job_id).lease_expires_at


def test_a_lease_much_longer_than_the_stall_is_renewed_while_the_loop_answers(still, frozen, caplog):
    held = claimed(still, lease=3600.0)
    keeper = make_keeper(still, held, lease=3600.0, stall=300.0)
    for _ in range(6):
        pause = keeper._pass()
        frozen.advance(pause)
    assert pause == 1200.0
    assert expiry(still, held[0]) == frozen.now() + 2400.0
    assert not caplog.records


def test_the_keeper_lets_go_of_a_loop_that_is_silent_for_longer_than_the_stall(still, frozen, caplog):
    held = claimed(still)
    loop = Loop()
    loop.answers = False
    keeper = make_keeper(still, held, loop=loop, lease=60.0, stall=50.0)
    ends = []
    for _ in range(6):
        frozen.advance(keeper._pass())
        ends.append(expiry(still, held[0]) - still.clock._start)
    # Asked at 0, silent for 20 and 40 s at the next two passes, for more than 50 from then on.
    assert ends == [60.0, 80.0, 100.0, 100.0, 100.0, 100.0]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "--stall" in caplog.text


def test_a_loop_that_answers_again_gets_its_leases_renewed_again(still, frozen, caplog):
    held = claimed(still, lease=1000.0)
    loop = Loop()
    loop.answers = False
    keeper = make_keeper(still, held, loop=loop, lease=60.0, stall=30.0)
    for _ in range(4):
        frozen.advance(keeper._pass())
    keeper._answered()  # what the loop was asked to call
    keeper._pass()
    assert expiry(still, held[0]) == frozen.now() + 60.0
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_failing_renewal_is_told_once_and_tried_again_soon(still, frozen, caplog):
    held = claimed(still)
    told = []
    still.hooks.on_error.append(lambda name, error: told.append((name, type(error))))

    def busy(*args):
        raise StoreBusyError("locked")

    store = Wrapped(still.store, {"heartbeat": busy})
    keeper = make_keeper(still, held, store=store, lease=60.0)
    with caplog.at_level(logging.INFO, "tinyjobs"):
        pauses = [keeper._pass() for _ in range(4)]
        assert pauses == [0.25, 0.5, 1.0, 2.0]
        store.before.clear()
        frozen.advance(10)
        assert keeper._pass() == 20.0
    assert expiry(still, held[0]) == frozen.now() + 60.0
    assert told == [("leases", StoreBusyError)] * 4
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_the_keeper_survives_whatever_its_pass_meets(still, caplog):
    held = claimed(still)
    answers = [RuntimeError("dictionary changed size during iteration"), held]

    def ask():
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    keeper = LeaseKeeper(still.engine(), WorkerSettings(), Loop(), ask, ask)
    assert keeper._pass() < 1.0
    assert keeper._pass() == 20.0
    assert expiry(still, held[0]) == still.clock.now() + 60.0
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_claim_that_was_lost_is_told_once_and_left_alone(still, caplog):
    held = claimed(still, 2)
    finish(still.store.inline().cancel(held[0].job_id))
    seen = []
    store = Wrapped(still.store, {"heartbeat": lambda entries, lease: seen.append(list(entries))})
    keeper = make_keeper(still, held, store=store)
    keeper._pass()
    keeper._pass()
    assert seen == [held, held[1:]]
    assert [held[0].job_id in record.getMessage() for record in caplog.records] == [True]


def test_a_job_whose_outcome_is_on_its_way_is_not_called_lost(still, caplog):
    held = claimed(still)
    finish(still.store.inline().cancel(held[0].job_id))  # stands for: recorded, and the answer not yet here
    keeper = make_keeper(still, held, running=[])
    keeper._pass()
    assert not caplog.records


def test_a_keeper_told_to_stop_says_nothing_of_a_store_closed_under_it(still, caplog):
    held = claimed(still)
    keeper = make_keeper(still, held)

    def closed(*args):
        keeper.stop()
        raise StoreBusyError("closed")

    still_store = Wrapped(still.store, {"heartbeat": closed})
    keeper._engine = still.engine(still_store)
    keeper._pass()
    assert not caplog.records


def test_the_calls_of_threads_can_be_listed_from_another_thread_while_they_change(bench):
    """The keeper asks while the loop starts and ends calls; a listing must never meet a changing dict."""
    bench.task("note", lambda number: None)
    worker = bench.worker(concurrency=8)
    failures = []
    done = threading.Event()

    def ask():
        while not done.is_set():
            try:
                worker._held()
            except Exception as error:
                failures.append(error)
                return

    asker = threading.Thread(target=ask)

    async def main():
        asker.start()
        ids = bench.put_many("note", 600)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: bench.counts() == {"success": len(ids)})
        worker.stop()
        await running

    try:
        asyncio.run(main())
    finally:
        done.set()
        asker.join()
    assert not failures


def test_a_coroutine_that_blocks_its_loop_for_three_leases_runs_once_beside_an_idle_worker(make_bench):
    first, second = make_bench("file"), make_bench("file")
    runs = []
    begun = threading.Event()

    async def block():
        runs.append(threading.current_thread().name)
        begun.set()
        time.sleep(3.3)  # on purpose: nothing else on this loop can run

    for bench in (first, second):
        bench.task("block", block, max_attempts=5)
    settings = {"lease": 1.0, "reap_interval": 0.2}
    workers = [first.worker(**settings), second.worker(**settings)]
    threads = [
        threading.Thread(target=lambda w=worker: asyncio.run(w.run()), name=name)
        for worker, name in zip(workers, "ab", strict=True)
    ]
    job = first.put("block")
    for thread in threads:
        thread.start()
    assert begun.wait(PATIENCE)
    asyncio.run(eventually(lambda: first.get(job).status.is_final))
    for worker, thread in zip(workers, threads, strict=True):
        worker.stop()
        thread.join(PATIENCE)
    assert len(runs) == 1
    assert first.history(job) == ["success"]
