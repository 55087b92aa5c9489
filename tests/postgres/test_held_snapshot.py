"""What a transaction left open elsewhere costs: dead rows stay, and every claim walks past them. Measured, and bounded.

Ten thousand jobs in the suite; TINYJOBS_SNAPSHOT_JOBS=50000 takes more of them, and pytest -s shows the figures that
the docs quote.
"""

import json
import os
import time
from typing import Any

import psycopg
import pytest

from tests.postgres.filled import Examined
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.core.transitions import succeeded

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

JOBS = int(os.environ.get("TINYJOBS_SNAPSHOT_JOBS", "10000"))
GROUP = 100
#: Buffers that one claim may read for each job that was finished while the snapshot was held. Its dead entry in the
#: index of ready jobs leads to its row, but those of jobs that were sent together share a page.
PER_DEAD_ROW = 0.1


def buffers_of_a_claim(store: Examined) -> int:
    return store.explain("claim", [None, json.dumps(["default"]), 20, False, "worker-1", 60.0]).buffers


def work(url: str, count: int) -> list[float]:
    """Send and finish that many jobs in groups, as a busy worker does; the jobs a second of each fifth."""
    store = open_backend(url, clock=SystemClock()).inline()
    finish(store.setup())
    rates = []
    for fifth in range(5):
        began = time.perf_counter()
        outcomes: list[Any] = []
        for group in range(count // 5 // GROUP):
            name = f"{fifth}{group:06d}"
            finish(
                store.enqueue_many(
                    [Job(id=f"{name}{n:04d}", task="note", payload=b"{}", delay=0.0) for n in range(GROUP)]
                )
            )
            claimed = finish(store.record(outcomes, ClaimRequest(worker_id="w", limit=GROUP, lease=60.0))).claimed
            assert claimed is not None and len(claimed.jobs) == GROUP
            now = time.time()
            outcomes = [succeeded(job, None, now) for job in sorted(claimed.jobs, key=lambda job: job.id)]
        finish(store.record(outcomes))
        rates.append(count / 5 / (time.perf_counter() - began))
    finish(store.close())
    return rates


def measured(url: str) -> tuple[int, int, list[float]]:
    """The buffers of a claim before and after so many jobs, and how fast those went."""
    store = Examined(url)
    before = buffers_of_a_claim(store)
    rates = work(url, JOBS)
    after = buffers_of_a_claim(store)
    store.close()
    return before, after, rates


def test_a_snapshot_that_is_held_elsewhere_makes_claims_dearer_within_a_bound(make_cluster):
    cluster = make_cluster()
    freely, held = (cluster.url(cluster.create_database()) for _ in range(2))
    free = measured(freely)
    with psycopg.connect(held) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM pg_class")
        kept = measured(held)
        reader.rollback()
    with psycopg.connect(held, autocommit=True) as keeper:
        keeper.execute("VACUUM tinyjobs_jobs")
    store = Examined(held)
    recovered = buffers_of_a_claim(store)
    store.close()
    for name, (before, after, rates) in {"no snapshot": free, "held": kept}.items():
        print(f"{name}: {before} buffers a claim, {after} after {JOBS} jobs; jobs/s {[round(rate) for rate in rates]}")
    print(f"after its end and a vacuum: {recovered} buffers")
    assert free[1] < kept[1] <= PER_DEAD_ROW * JOBS + 100
    assert recovered <= 50
