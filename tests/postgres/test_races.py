"""Two at one row: what a store answers while somebody else holds what it wants to change."""

import threading
from collections.abc import Callable, Iterator, Sequence

import psycopg
import pytest

from tinyjobs.backends.base import Backend
from tinyjobs.backends.postgres.backend import PostgresBackend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held, Job

pytestmark = pytest.mark.postgres

LEASE = 60.0


@pytest.fixture
def store(postgres_url: str) -> Iterator[Backend]:
    store = open_backend(postgres_url, clock=SystemClock())
    assert isinstance(store, PostgresBackend)
    inline = store.inline()
    finish(inline.setup())
    yield inline
    finish(store.close())


@pytest.fixture
def other(postgres_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of somebody else's, in a transaction; what waits for it is cut off by a second of patience."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = '20s'")
        yield connection
        connection.rollback()


def running(store: Backend, number: int) -> list[Held]:
    """So many jobs, claimed."""
    jobs = [
        Job(id=f"job-{place}", task="task", queue="default", payload=b"[]", run_at=1.0, created_at=1.0)
        for place in range(number)
    ]
    finish(store.enqueue_many(jobs))
    claimed = finish(store.claim(ClaimRequest(worker_id="worker", limit=number, lease=LEASE)))
    assert len(claimed.jobs) == number
    return [Held(job.id, job.claims) for job in claimed.jobs]


def leases(other: psycopg.Connection[tuple[object, ...]]) -> dict[object, object]:
    return dict(other.execute("SELECT id, lease_expires_at FROM tinyjobs_jobs").fetchall())  # type: ignore[arg-type]


def run_all(calls: Sequence[Callable[[], None]]) -> None:
    """All at once, from a common start, in threads of their own; an error of one is raised here."""
    start = threading.Barrier(len(calls))
    errors: list[BaseException] = []

    def begin(call: Callable[[], None]) -> None:
        try:
            start.wait(30)
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=begin, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "it waits for ever"
    if errors:
        raise errors[0]


def test_a_heartbeat_waits_for_nobody_and_takes_no_locked_job_for_lost(store, other):
    held = running(store, 2)
    before = leases(other)
    other.execute("SELECT FROM tinyjobs_jobs WHERE id = %s FOR UPDATE", [held[0].job_id])
    answers: list[Held] = []
    beat = threading.Thread(target=lambda: answers.extend(finish(store.heartbeat(held, LEASE * 2))), daemon=True)
    beat.start()
    beat.join(10)
    assert not beat.is_alive(), "the heartbeat waits for a row that somebody else is writing"
    assert set(answers) == set(held), "whoever is not told that a claim holds takes it for lost for good"
    after = leases(other)
    assert after[held[0].job_id] == before[held[0].job_id], "nobody can write it now; the next heartbeat does"
    assert after[held[1].job_id] > before[held[1].job_id] + LEASE / 2
    other.rollback()
    finish(store.heartbeat(held, LEASE * 2))
    assert leases(other)[held[0].job_id] > before[held[0].job_id] + LEASE / 2


def test_two_heartbeats_of_one_worker_do_not_take_each_others_claims_for_lost(store, caplog):
    """The keeper's, and after a pause of the machine another one."""
    held = running(store, 20)
    short: list[int] = []

    def beat(entries: Sequence[Held]) -> None:
        for _ in range(100):
            answered = len(finish(store.heartbeat(entries, LEASE)))
            if answered < len(held):
                short.append(answered)

    run_all([lambda: beat(held), lambda: beat(held[::-1])])
    assert short == []
    assert "deadlock" not in caplog.text
