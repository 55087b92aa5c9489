"""Expiry under a worker and a drain: never started too late, whoever is late; ended, told of and counted once."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core.errors import JobExpired
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.core.transitions import EXPIRED, handed_back
from tinyjobs.runtime.drain import drain, run_one

DUE_IN = 60.0


@pytest.fixture(params=["memory", "file"])
def late(request, make_bench, frozen):
    """A bench with a task, and what it ran and told."""
    bench = make_bench(request.param, clock=frozen)
    bench.ran, bench.told = [], []
    bench.task("note", bench.ran.append)
    bench.hooks.on_failure.append(lambda job, error, again: bench.told.append((job.id, type(error), again, job.status)))
    return bench


def put(bench, number=0, **values):
    return bench.put("note", number, expires_at=bench.clock.now() + DUE_IN, **values)


@pytest.mark.parametrize("how", ["worker", "drain", "one"])
def test_a_job_that_is_too_late_is_not_run(late, frozen, how):
    job_id = put(late, key="k")
    frozen.advance(DUE_IN)
    if how == "worker":
        # The claim itself has to find out, not the look for such jobs.
        store = Wrapped(late.store)
        store.end_unstarted = _finds_none
        report = asyncio.run(asyncio.wait_for(late.worker(store=store, until_empty=True).run(), PATIENCE))
        assert (report.succeeded, report.failed, report.expired) == (0, 0, 1)
    elif how == "drain":
        assert drain(late.engine()) == 0, "it counts what it ran"
    else:
        assert run_one(late.engine(), job_id).status == "cancelled"
    job = late.get(job_id)
    assert (job.status, job.last_error, job.attempts, job.started_at) == ("cancelled", EXPIRED, 0, None)
    assert late.ran == [] and late.history(job_id) == []
    assert late.told == [(job_id, JobExpired, False, "cancelled")]
    assert not finish(late.store.inline().enqueue(late.job("note", 1, key="k"))).existing


def test_one_that_is_in_time_runs(late, frozen):
    put(late, 1)
    frozen.advance(DUE_IN - 0.001)
    assert drain(late.engine()) == 1
    assert (late.ran, late.told) == ([1], [])


def test_an_expired_job_of_a_task_nobody_knows_ends_as_well(late, frozen):
    job_id = late.put("unheard.of", expires_at=frozen.now() + DUE_IN)
    frozen.advance(DUE_IN)
    assert drain(late.engine()) == 0
    assert late.status(job_id) == ["cancelled"]


def test_a_retry_does_not_expire(make_bench, frozen):
    bench = make_bench("file", clock=frozen)
    tries = []

    def flaky():
        tries.append(frozen.now())
        if len(tries) == 1:
            raise ValueError("not yet")

    bench.task("flaky", flaky, max_attempts=2, retry_backoff="fixed", retry_base=500, retry_jitter=False)
    job_id = bench.put("flaky", expires_at=frozen.now() + DUE_IN)
    assert drain(bench.engine()) == 1
    frozen.advance(501)
    assert finish(bench.store.inline().end_unstarted()) == []
    assert drain(bench.engine()) == 1
    assert bench.status(job_id) == ["success"]


def test_a_worker_ends_what_stands_in_a_queue_nobody_serves(late, frozen):
    ids = [put(late, queue="nobody"), put(late, queue="nobody", run_at=frozen.now() + 1_000.0)]
    frozen.advance(DUE_IN)

    async def main():
        worker = late.worker(queues=("served",))
        running = asyncio.create_task(worker.run())
        await eventually(lambda: late.status(*ids) == ["cancelled"] * 2)
        worker.stop()
        return await asyncio.wait_for(running, PATIENCE)

    report = asyncio.run(main())
    assert report.expired == 2
    assert sorted(late.told) == sorted((job_id, JobExpired, False, "cancelled") for job_id in ids)


def test_what_a_stop_hands_back_may_still_expire(late, frozen):
    job_id = put(late)
    store = late.store.inline()
    (job,) = finish(store.claim(ClaimRequest(worker_id="w", limit=1, lease=60.0))).jobs
    finish(store.record([handed_back(job, frozen.now())]))
    frozen.advance(DUE_IN)
    assert drain(late.engine()) == 0
    assert late.status(job_id) == ["cancelled"]


def test_many_workers_end_or_run_each_job_once(make_bench):
    """Some jobs expire while they wait: each is either run once, in time, or ended once."""
    benches = [make_bench("file") for _ in range(3)]
    first = benches[0]
    lock, started = threading.Lock(), {}
    told = []

    def note(number):
        with lock:
            started.setdefault(number, []).append(first.clock.now())

    for bench in benches:
        bench.task("note", note)
        bench.hooks.on_failure.append(lambda job, error, again: told.append(job.id))
    now = first.clock.now()
    jobs = [first.job("note", number, expires_at=now + (number % 50) / 100) for number in range(400)]
    finish(first.store.inline().enqueue_many(jobs))

    async def main():
        workers = [bench.worker(until_empty=True, concurrency=2, reap_interval=0.1) for bench in benches]
        return await asyncio.wait_for(asyncio.gather(*(worker.run() for worker in workers)), PATIENCE)

    reports = asyncio.run(main())
    assert all(len(times) == 1 for times in started.values())
    assert sum(report.succeeded for report in reports) == len(started)
    assert sum(report.expired for report in reports) == len(told) == len(set(told)) == 400 - len(started)
    assert first.counts() == {"success": len(started), "cancelled": len(told)} if started else {"cancelled": 400}


async def _finds_none(limit):
    return []


PROGRAM = """
import os, signal, sys
from tinyjobs import TinyJobs
from tinyjobs.core import transitions

app = TinyJobs(sys.argv[1])

@app.task(name="note")
def note():
    print("ran", flush=True)

def die(job, now):
    os.kill(os.getpid(), signal.SIGKILL)

transitions.expired = die
app.drain()
"""


def test_a_worker_killed_before_it_could_end_the_job_leaves_it_to_the_reaper(make_bench, tmp_path):
    """It was claimed too late and ended by nobody: taken back it does not run either."""
    bench = make_bench("file")
    bench.task("note", lambda: None)
    job_id = bench.put("note", expires_at=bench.clock.now() - 1.0)
    program = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path}/jobs.db"], capture_output=True, timeout=60
    )
    assert (program.returncode, program.stdout) == (-signal.SIGKILL, b"")
    assert bench.status(job_id) == ["running"]
    store = bench.store.inline()
    held = bench.get(job_id)
    store.time = type(store.time)(_At(held.lease_expires_at + 1.0))
    (reaped,) = finish(store.reap_expired())
    assert (reaped.status, reaped.last_error) == ("cancelled", EXPIRED)
    assert bench.history(job_id) == []
    assert os.path.exists(tmp_path / "jobs.db")


class _At:
    """A clock that stands where it is put."""

    def __init__(self, instant):
        self.now = lambda: instant
