"""Taking back the jobs of workers that vanished: never one's own, never one that ended meanwhile, told of once."""

import asyncio

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core import transitions
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held
from tinyjobs.runtime.hooks import HookRunner
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.upkeep import Upkeep


@pytest.fixture
def still(make_bench, frozen):
    return make_bench("file", clock=frozen)


def claim(bench, worker="gone", **values):
    bench.put("note", **{"max_attempts": 2, **values})
    request = ClaimRequest(worker_id=worker, limit=1, lease=60.0)
    (job,) = finish(bench.store.inline().claim(request)).jobs
    return job


def make_upkeep(bench, *own, store=None):
    held = [Held(job.id, job.claims) for job in own]
    return Upkeep(bench.engine(store), WorkerSettings(), HookRunner(), lambda: held)


def test_a_worker_that_was_suspended_renews_its_own_leases_before_it_takes_back_others(still, frozen):
    """Both leases ran out while the machine slept; one of the two workers has woken up."""
    mine, theirs = claim(still, "mine"), claim(still, "theirs")
    upkeep = make_upkeep(still, mine)

    async def main():
        assert await upkeep.reap() == 0
        frozen.advance(3_600.0)
        assert await upkeep.reap() == 1
        frozen.advance(15.0)
        assert await upkeep.reap() == 0

    asyncio.run(main())
    assert still.status(mine.id, theirs.id) == ["running", "queued"]
    assert still.get(mine.id).lease_expires_at == frozen.now() + 45.0


def test_passes_as_planned_renew_nothing(still, frozen):
    mine = claim(still, "mine")
    store = Wrapped(still.store)
    upkeep = make_upkeep(still, mine, store=store)

    async def main():
        for _ in range(10):
            frozen.advance(18.0)
            await upkeep.reap()

    asyncio.run(main())
    assert "heartbeat" not in store.calls


def test_a_claim_of_its_own_that_was_lost_meanwhile_is_not_won_back(still, frozen):
    mine = claim(still, "mine")
    upkeep = make_upkeep(still, mine)
    frozen.advance(3_600.0)
    assert len(asyncio.run(still.store.reap_expired())) == 1
    assert asyncio.run(upkeep.reap()) == 0
    assert still.status(mine.id) == ["queued"]


def test_a_job_that_ends_between_the_look_and_the_taking_back_stays_ended(still, frozen):
    """The reaper is held between its first read and its transaction, and the late worker reports in that moment."""
    job = claim(still)
    other = still.store
    frozen.advance(61.0)
    outcome = transitions.succeeded(job, None, frozen.now())
    real = other.statements["expired"]
    reads = []

    async def main():
        connection = other._inline.connection()
        fetch = connection.fetch

        async def slow(statement, parameters=()):
            rows = await fetch(statement, parameters)
            if statement is real and not reads:
                reads.append(len(rows))
                assert (await other.record([outcome])).applied == [True]
            return rows

        connection.fetch = slow
        return await other.inline().reap_expired()

    assert asyncio.run(main()) == []
    assert reads == [1]
    assert still.status(job.id) == ["success"]
    assert still.history(job.id) == ["success"]


def test_a_reaper_that_is_stopped_in_the_middle_tells_of_what_it_took_back(make_bench):
    bench = make_bench("file")
    told = []
    bench.hooks.on_failure.append(lambda job, error, will_retry: told.append((job.id, will_retry)))
    bench.task("note", lambda: None)
    bench.put("note")
    request = ClaimRequest(worker_id="gone", limit=1, lease=-1.0)
    (job,) = finish(bench.store.inline().claim(request)).jobs
    store = Wrapped(bench.store)

    async def main():
        under_way, go_on = asyncio.Event(), asyncio.Event()

        async def slow(jobs):
            under_way.set()
            await go_on.wait()

        store.after["reap_expired"] = slow
        worker = bench.worker(store=store)
        running = asyncio.create_task(worker.run())
        await under_way.wait()
        worker.stop()
        await eventually(lambda: worker._parts.is_ending)
        go_on.set()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert told == [(job.id, False)]
    assert bench.status(job.id) == ["failed"]
