"""Two at one row: what a store answers while somebody else holds what it wants to change."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest

from tinyjobs.backends.base import Backend
from tinyjobs.backends.postgres.backend import PostgresBackend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held, Job, Room

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
def other(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of somebody else's, in a transaction; what waits for it is cut off by a second of patience."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = '20s'")
        yield connection
        connection.rollback()


def job(name: str, *, queue: str = "default", priority: int = 0, task: str = "task", run_at: float = 1.0) -> Job:
    """A job that is due."""
    return Job(id=name, task=task, queue=queue, priority=priority, payload=b"[]", run_at=run_at, created_at=1.0)


def running(store: Backend, number: int) -> list[Held]:
    """So many jobs, claimed."""
    finish(store.enqueue_many([job(f"job-{place}") for place in range(number)]))
    claimed = finish(store.claim(ClaimRequest(worker_id="worker", limit=number, lease=LEASE)))
    assert len(claimed.jobs) == number
    return [Held(entry.id, entry.claims) for entry in claimed.jobs]


def leases(other: psycopg.Connection[Any]) -> dict[str, float]:
    return dict(other.execute("SELECT id, lease_expires_at FROM tinyjobs_jobs").fetchall())


def run_all(calls: Sequence[Callable[[], None]]) -> None:
    """All at once, from a common start, in threads of their own; an error of one is raised here."""
    start = threading.Barrier(len(calls))
    errors: list[BaseException] = []

    def begin(call: Callable[[], None]) -> None:
        try:
            start.wait(60)
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
    beat.join(60)
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


@pytest.mark.parametrize("queues", [(), ("crowded", "quiet")], ids=["all queues", "two queues"])
@pytest.mark.parametrize("room", [None, Room(tasks=frozenset({"rare"}), free=1, ahead=64)], ids=["claim", "room"])
def test_a_locked_job_holds_up_no_other_queue(store, other, queues, room):
    """As a cancel does in a transaction that goes on for a while."""
    locked = [job(f"a-{place}", queue="crowded", priority=9) for place in range(3)]
    free = [job("b-0", queue="quiet", priority=5), job("b-1", queue="quiet"), job("c-0", queue="crowded", priority=2)]
    finish(store.enqueue_many([*locked, *free]))
    other.execute("SELECT FROM tinyjobs_jobs WHERE priority = 9 FOR UPDATE")
    request = ClaimRequest(worker_id="worker", limit=2, lease=LEASE, queues=queues, room=room)
    assert [taken.id for taken in finish(store.claim(request)).jobs] == ["b-0", "c-0"]
    assert [taken.id for taken in finish(store.claim(request)).jobs] == ["b-1"]
    other.rollback()
    assert [taken.id for taken in finish(store.claim(request)).jobs] == ["a-0", "a-1"]


@pytest.mark.parametrize("queues", [(), ("a", "b", "c")], ids=["all queues", "three queues"])
@pytest.mark.parametrize("bounded", [False, True], ids=["claim", "room"])
def test_two_workers_take_each_job_once_whatever_its_queue_and_priority(store, queues, bounded):
    chance = random.Random(7)
    room = Room(tasks=frozenset({"rare"}), free=2, ahead=64) if bounded else None
    for number in range(10):
        jobs = [
            job(
                f"{number}-{place:03}",
                queue=chance.choice("aaaabc"),
                priority=chance.choice((0, 0, 0, 9)),
                task=chance.choice(("task", "rare")),
                run_at=1.0 + place,
            )
            for place in range(120)
        ]
        finish(store.enqueue_many(jobs))
        place_of = {
            entry.id: place for place, entry in enumerate(sorted(jobs, key=lambda entry: (-entry.priority, entry.id)))
        }
        taken: list[str] = []

        def work(
            limit: int, name: str, taken: list[str] = taken, place_of: dict[str, int] = place_of, left: int = len(jobs)
        ) -> None:
            request = ClaimRequest(worker_id=name, limit=limit, lease=LEASE, queues=queues, room=room)
            deadline = time.monotonic() + 30
            while len(taken) < left and time.monotonic() < deadline:
                found = finish(store.claim(request)).jobs
                assert len(found) <= limit
                assert room is None or sum(entry.task == "rare" for entry in found) <= room.free
                assert [place_of[entry.id] for entry in found] == sorted(place_of[entry.id] for entry in found)
                taken.extend(entry.id for entry in found)

        run_all([lambda work=work: work(7, "one"), lambda work=work: work(3, "two")])
        assert sorted(taken) == sorted(place_of)
