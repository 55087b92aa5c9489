"""Tables that are changed under running connections, which have prepared statements for them as they were."""

import asyncio

import psycopg
import pytest

from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import StoreError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.core.transitions import handed_back

pytestmark = pytest.mark.postgres

REQUEST = ClaimRequest(worker_id="worker-1", limit=10, lease=60.0)


def job(number: int) -> Job:
    return Job(id=f"job-{number}", task="shop.tasks.pack", payload=b"{}", delay=0.0)


def change(url: str, kind: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE tinyjobs_jobs ALTER COLUMN last_error TYPE {kind}")


def test_a_changed_column_costs_a_worker_no_more_than_its_connections(postgres_url: str) -> None:
    async def work() -> None:
        store = open_backend(postgres_url, clock=SystemClock(), min_connections=3, max_connections=3)
        await store.setup()
        try:
            for round_number, kind in enumerate(("varchar", "text")):
                await store.enqueue(job(round_number))
                # On every connection of the pool, all of them at once.
                await asyncio.gather(*(store.get(f"job-{round_number}") for _ in range(12)))
                taken = (await store.claim(REQUEST)).jobs
                change(postgres_url, kind)
                assert await store.get(taken[0].id) is not None
                recorded = await store.record([handed_back(taken[0], taken[0].run_at)], REQUEST)
                assert recorded.applied == [True]
                assert recorded.claimed is not None and [again.id for again in recorded.claimed.jobs] == [taken[0].id]
                for again in recorded.claimed.jobs:
                    await store.record([handed_back(again, again.run_at)])
        finally:
            await store.close()

    asyncio.run(work())


def test_a_changed_column_is_not_met_by_threads(postgres_url: str) -> None:
    store: Backend = open_backend(postgres_url, clock=SystemClock()).inline()
    finish(store.setup())
    finish(store.enqueue(job(1)))
    for kind in ("varchar", "text"):
        assert finish(store.get("job-1")) is not None
        change(postgres_url, kind)
        assert finish(store.get("job-1")) is not None
    finish(store.close())


def test_a_claim_that_fails_after_its_group_was_recorded_takes_nothing_back(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the group would be sent again, and look as if it had come too late."""
    store = open_backend(postgres_url, clock=SystemClock()).inline()
    finish(store.setup())
    finish(store.enqueue(job(1)))
    (taken,) = finish(store.claim(REQUEST)).jobs

    async def fail(*_: object) -> None:
        raise StoreError("the claim failed")

    monkeypatch.setattr("tinyjobs.backends.postgres.dialect.PostgresDialect._claim", fail)
    recorded = finish(store.record([handed_back(taken, taken.run_at)], REQUEST))
    assert recorded.applied == [True]
    assert recorded.claimed is None
    finish(store.close())
