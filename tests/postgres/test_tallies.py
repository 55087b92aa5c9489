"""Kept counters on Postgres: exact at every moment, and nobody waits for a counter that somebody else has open."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.postgres.test_races import job, run_all
from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import ExecutionError, Outcome, failed, succeeded

pytestmark = pytest.mark.postgres

# Whoever waits for a lock that an open transaction holds is cut off by it, and the test fails.
PATIENCE = 60.0
ERROR = ExecutionError(error_type="ValueError", message="no")


@pytest.fixture
def made(postgres_url: str) -> Iterator[Any]:
    store = open_backend(postgres_url, clock=SystemClock(), max_connections=30, statement_timeout=PATIENCE)
    finish(store.inline().setup())
    yield store
    finish(store.inline().close())
    finish(store.close())


@pytest.fixture
def store(made: Any) -> Backend:
    return made.inline()  # type: ignore[no-any-return]


@contextmanager
def open_transaction(made: Any, url: str) -> Iterator[Backend]:
    """The store as a long transaction of the application's sees it; committed at the end."""
    with psycopg.connect(url) as connection:
        yield made.inline().joined(connection)


def put(store: Backend, names: list[str], **values: Any) -> None:
    finish(store.enqueue_many([job(name, **values) for name in names]))


def claim(store: Backend, worker: str, limit: int = 100, lease: float = 60.0) -> list[Job]:
    return finish(store.claim(ClaimRequest(worker_id=worker, limit=limit, lease=lease))).jobs


def end(store: Backend, jobs: list[Job]) -> None:
    now = SystemClock().now()
    recorded = finish(store.record([succeeded(entry, None, now) for entry in jobs]))
    assert recorded.applied == [True] * len(jobs)


def kept(store: Backend) -> dict[str, int]:
    """The ended jobs by status, as the counters have it."""
    counts = finish(store.counts_by_status())
    return {status: counts[status] for status in ("success", "failed", "cancelled")}


def counted(url: str) -> dict[str, int]:
    """The same, counted."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT status, count(*) FROM tinyjobs_jobs WHERE finished_at IS NOT NULL GROUP BY status"
        ).fetchall()
    return {"success": 0, "failed": 0, "cancelled": 0, **dict(rows)}


def rows(url: str) -> int:
    with psycopg.connect(url) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM tinyjobs_tallies").fetchall()
    return int(count)


def deadlocks(url: str) -> int:
    with psycopg.connect(url) as connection:
        ((count,),) = connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchall()
    return int(count)


OPEN: dict[str, Callable[[Backend], bool]] = {
    "cancel": lambda store: finish(store.cancel("queued")),
    "cancel a running one": lambda store: finish(store.cancel("running")),
    "requeue": lambda store: finish(store.requeue("failed")),
    "delete": lambda store: finish(store.delete("failed")),
    "end an expired holder": lambda store: (
        not finish(
            store.enqueue(Job(id="new", task="task", payload=b"[]", key="late", run_at=1.0, created_at=1.0))
        ).existing
    ),
}


@pytest.mark.parametrize("what", OPEN)
def test_workers_record_beside_an_open_transaction(what: str, made: Any, store: Backend, postgres_url: str) -> None:
    """An application that has changed a job and does not commit holds up no worker, though the queue is the same."""
    put(store, ["failed"])
    finish(store.record([failed(entry, ERROR, None, SystemClock().now()) for entry in claim(store, "worker-0")]))
    put(store, ["running"])
    claim(store, "worker-1")
    put(store, [f"job-{number}" for number in range(20)])
    first, second = claim(store, "worker-1", 10), claim(store, "worker-2", 10)
    put(store, ["queued", "other"])
    finish(store.enqueue(Job(id="holder", task="task", payload=b"[]", key="late", run_at=4e9, expires_at=1.0)))
    before = kept(store)
    with open_transaction(made, postgres_url) as in_it:
        assert OPEN[what](in_it)
        run_all([lambda: end(store, first), lambda: end(store, second)])
        assert finish(store.cancel("other"))
        # What is not committed is told to nobody.
        assert kept(store) == {**before, "success": 20, "cancelled": 1}
        finish(store.tidy())
    assert kept(store) == counted(postgres_url) != {**before, "success": 20, "cancelled": 1}
    assert deadlocks(postgres_url) == 0


def test_many_cancel_at_once(store: Backend, postgres_url: str) -> None:
    """Twenty threads, each with jobs of its own and some that the others cancel as well."""
    names = [f"job-{number:03d}" for number in range(100)]
    put(store, names)
    done: list[int] = []

    def cancel(seed: int) -> None:
        mine = random.Random(seed).sample(names, 40)
        done.append(sum(finish(store.cancel(name)) for name in mine))

    run_all([lambda seed=seed: cancel(seed) for seed in range(20)])  # type: ignore[misc]
    assert kept(store) == counted(postgres_url)
    assert kept(store)["cancelled"] == sum(done)
    assert deadlocks(postgres_url) == 0


def outcome(entry: Job, chance: random.Random) -> Outcome:
    now = SystemClock().now()
    return chance.choice((succeeded(entry, None, now), failed(entry, ERROR, None, now), failed(entry, ERROR, now, now)))


def test_everything_at_once(store: Backend, postgres_url: str) -> None:
    """Workers, people, the reaper, the sweepers, all at the same jobs: no deadlock, and the counts are exact."""
    stop = threading.Event()
    names = [f"job-{number:03d}" for number in range(150)]
    put(store, names)

    def work(worker: str) -> None:
        chance = random.Random(worker)
        while not stop.is_set():
            jobs = claim(store, worker, 8, lease=chance.choice((0.001, 60.0)))
            finish(store.record([outcome(entry, chance) for entry in jobs]))

    def steer(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(120):
            verb = chance.choice((store.cancel, store.requeue, store.requeue, store.delete))
            finish(verb(chance.choice(names)))
            if chance.random() < 0.2:
                finish(store.reap_expired())
            if chance.random() < 0.1:
                finish(store.purge(chance.choice((JobStatus.SUCCESS, JobStatus.FAILED)), 0.0, limit=3))
            if chance.random() < 0.2:
                finish(store.tidy())

    def steer_all() -> None:
        try:
            run_all([lambda seed=seed: steer(seed) for seed in range(4)])  # type: ignore[misc]
        finally:
            stop.set()

    run_all([steer_all, *(lambda name=name: work(name) for name in ("worker-1", "worker-2"))])  # type: ignore[misc]
    assert kept(store) == counted(postgres_url)
    assert deadlocks(postgres_url) == 0


def age(url: str, minutes: int) -> None:
    """Let everything that was tallied have been so many minutes earlier."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE tinyjobs_tallies SET minute = minute - %s WHERE minute > 0", [minutes])


def test_no_reader_sees_a_fold_half_done(store: Backend, postgres_url: str) -> None:
    """Counts are what they are while rows are folded and others are written."""
    total = 0
    for number in range(30):
        put(store, [f"job-{number}-{place}" for place in range(5)])
        end(store, claim(store, f"worker-{number}"))
        total += 5
    stop = threading.Event()

    def read() -> None:
        seen = set()
        while not stop.is_set():
            seen.add(kept(store)["success"])
        assert seen == {total}

    def fold() -> None:
        try:
            for minutes in (10, 70, 2_000):
                age(postgres_url, minutes)
                run_all([lambda: finish(store.tidy())] * 3)
                finish(store.tidy())
        finally:
            stop.set()

    run_all([read, read, fold])
    assert (kept(store)["success"], rows(postgres_url)) == (total, 1)
    assert deadlocks(postgres_url) == 0


def test_a_fold_leaves_alone_what_somebody_is_writing(made: Any, store: Backend, postgres_url: str) -> None:
    """An open transaction holds a counter's row: the others are folded, nobody waits, and it is folded later."""
    put(store, ["one", "two"])
    for name in ("one", "two"):
        finish(store.cancel(name))
    age(postgres_url, 2_000)
    with psycopg.connect(postgres_url) as stranger:
        stranger.execute("SELECT 1 FROM tinyjobs_tallies WHERE owner = 'one' FOR UPDATE")
        finish(store.tidy())
        assert (kept(store)["cancelled"], rows(postgres_url)) == (2, 2)
    finish(store.tidy())
    assert (kept(store)["cancelled"], rows(postgres_url)) == (2, 1)


def test_what_a_rollback_takes_back_was_never_counted(made: Any, store: Backend, postgres_url: str) -> None:
    put(store, ["one"])
    with psycopg.connect(postgres_url) as connection:
        assert finish(made.inline().joined(connection).cancel("one"))
        connection.rollback()
    assert kept(store)["cancelled"] == 0
    assert finish(store.cancel("one"))
    assert kept(store)["cancelled"] == 1
