"""What a verb costs in steps of SQLite's own machine: the same on a nearly empty store and on a very large one.

Counted, not timed. The large store holds delayed jobs of a higher priority than any ready one, and ten times as many
finished jobs as one would keep apart; neither may be paid for.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.sqlite.filled import NOW
from tests.sqlite.stores import connection_of, make_job, make_store, request
from tinyjobs.backends.base import Backend
from tinyjobs.backends.time import StoreTime
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Held, Room
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import ExecutionError, failed, succeeded

QUEUES = [f"queue{number}" for number in range(10)]


def steps[T](store: Backend, coroutine: Coroutine[Any, Any, T]) -> tuple[int, T]:
    """How many instructions SQLite ran for the verb, and its answer."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    raw = connection_of(store)._raw
    raw.set_progress_handler(tick, 1)
    try:
        answer = finish(coroutine)
    finally:
        raw.set_progress_handler(None, 0)
    return count, answer


@pytest.fixture
def small_store(tmp_path, large_store):
    """The same form of the store, with twenty ready jobs in each of the same ten queues."""
    store = make_store(tmp_path / "small.db", returning=large_store.returning)
    jobs = [
        make_job(store.clock, queue=queue, priority=number % 5, task=f"shop.tasks.{'abcdefg'[number % 7]}")
        for number in range(20)
        for queue in QUEUES
    ]
    finish(store.inline().enqueue_many(jobs))
    return store


CLAIMS = {
    "one queue": {"queues": ("queue3",)},
    "the busiest queue": {"queues": ("queue0",)},
    "three queues": {"queues": ("queue0", "queue4", "queue8")},
    "all queues": {},
    "one queue, with room": {"queues": ("queue3",), "room": Room(frozenset({"shop.tasks.a"}), 3, ahead=100)},
    "all queues, with room": {"room": Room(frozenset({"shop.tasks.a", "shop.tasks.b"}), 3, ahead=100)},
}


@pytest.mark.parametrize("which", CLAIMS)
def test_a_claim_of_ten(large_store, small_store, which):
    few, claimed = steps(small_store.inline(), small_store.inline().claim(request(10, **CLAIMS[which])))
    assert len(claimed.jobs) == 10
    many, claimed = steps(large_store.inline(), large_store.inline().claim(request(10, **CLAIMS[which])))
    assert len(claimed.jobs) == 10
    if "room" not in which:
        assert many <= 2 * few, f"{many} steps instead of {few}"
    else:
        # To find other jobs behind those of a full room a claim looks ahead, as far as it is told to in each queue.
        heads = CLAIMS[which]["room"].ahead * len(CLAIMS[which].get("queues") or QUEUES)
        assert many <= 120 * heads, f"{many} steps for {heads} heads"


def test_a_claim_that_finds_nothing(large_store, tmp_path):
    empty = make_store(tmp_path / "empty.db", returning=large_store.returning)
    few, claimed = steps(empty.inline(), empty.inline().claim(request(10, queues=("nobody",))))
    assert claimed.jobs == []
    many, claimed = steps(large_store.inline(), large_store.inline().claim(request(10, queues=("nobody",))))
    assert (claimed.jobs, claimed.next_due) == ([], NOW + 1_001)
    assert many <= 2 * few


def running(store, count: int = 10):
    return finish(store.inline().claim(request(count, queues=("queue3",)))).jobs


ERROR = ExecutionError(error_type="ValueError", message="no", traceback="x" * 500)
VERBS: dict[str, Callable[[Any, list[Any]], Callable[[Backend], Coroutine[Any, Any, Any]]]] = {
    "enqueue": lambda store, jobs: lambda face: face.enqueue(make_job(store.clock)),
    "enqueue a held key": lambda store, jobs: lambda face: face.enqueue(make_job(store.clock, key="held")),
    "enqueue ten": lambda store, jobs: lambda face: face.enqueue_many([make_job(store.clock) for _ in range(10)]),
    "look": lambda store, jobs: lambda face: face.next_due(),
    "look at three queues": lambda store, jobs: lambda face: face.next_due(["queue1", "queue2", "nobody"]),
    "succeed ten": lambda store, jobs: lambda face: face.record([succeeded(job, b"1", NOW) for job in jobs]),
    "fail ten": lambda store, jobs: lambda face: face.record([failed(job, ERROR, NOW + 9, NOW) for job in jobs]),
    "succeed ten, claim ten": lambda store, jobs: (
        lambda face: face.record([succeeded(job, b"1", NOW) for job in jobs], request(10, queues=("queue3",)))
    ),
    "heartbeat of ten": lambda store, jobs: lambda face: face.heartbeat([Held(job.id, job.claims) for job in jobs], 60),
    "claim by id": lambda store, jobs: lambda face: face.claim_job("held-id", worker_id="w", lease=60),
    "get": lambda store, jobs: lambda face: face.get(jobs[0].id),
    "executions": lambda store, jobs: lambda face: face.executions(jobs[0].id),
    "cancel a running job": lambda store, jobs: lambda face: face.cancel(jobs[0].id),
    "cancel a queued job": lambda store, jobs: lambda face: face.cancel("held-id"),
    "list everything": lambda store, jobs: lambda face: face.list(limit=5),
    "list a queue": lambda store, jobs: lambda face: face.list(queue="queue3", limit=5),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb(large_store, small_store, verb):
    counts = []
    for store in (small_store, large_store):
        inline = store.inline()
        jobs = running(store)
        finish(inline.enqueue(make_job(store.clock, id="held-id", key="held")))
        count, _ = steps(inline, VERBS[verb](store, jobs)(inline))
        finish(inline.cancel("held-id"))
        raw = connection_of(inline)._raw
        raw.execute("DELETE FROM tinyjobs_jobs WHERE id = 'held-id'")
        counts.append(count)
    assert counts[1] <= 2 * counts[0], f"{counts[1]} steps instead of {counts[0]}"


def test_letting_in(large_store, small_store):
    """Five hundred of those that came due, whatever else is delayed."""
    for store in (small_store, large_store):
        clock = store.clock = FrozenClock(NOW)
        finish(store.inline().enqueue_many([make_job(clock, run_at=NOW + 1 + n / 1000) for n in range(500)]))
        clock.advance(2)
    few, _ = steps(small_store.inline(), small_store.inline().claim(request(1, queues=("nobody",))))
    many, _ = steps(large_store.inline(), large_store.inline().claim(request(1, queues=("nobody",))))
    assert many <= 2 * few, f"{many} steps instead of {few}"
    assert finish(large_store.inline().next_due(["default"]))[0]


def test_rare_statuses_are_listed_without_a_walk(large_store, small_store):
    """A page of twenty costs what its twenty rows, or the few rows of its status, cost."""
    inline = large_store.inline()
    for status, rows in ((JobStatus.FAILED, 20), (JobStatus.CANCELLED, 20), (JobStatus.SUCCESS, 60)):
        count, page = steps(inline, inline.list(status=status, limit=20))
        assert len(page.jobs) == 20
        assert count < 150 * rows, f"{count} steps for {status}"
    for status, rows in ((JobStatus.RUNNING, 600), (JobStatus.HELD, 300), (JobStatus.WAITING, 300)):
        count, page = steps(inline, inline.list(status=status, limit=20))
        assert len(page.jobs) == 20
        assert count < 150 * rows, f"{count} steps for {status}"


def test_depth_costs_nothing(large_store):
    """The thousandth page costs what the first one costs."""
    inline = large_store.inline()
    for filters in ({}, {"queue": "queue0"}, {"status": JobStatus.FAILED}, {"status": JobStatus.SUCCESS}):
        first, page = steps(inline, inline.list(limit=20, **filters))
        ids = connection_of(inline)._raw.execute("SELECT id FROM tinyjobs_jobs ORDER BY id LIMIT 1 OFFSET 200000")
        deep, page = steps(inline, inline.list(limit=20, cursor=ids.fetchone()[0], **filters))
        assert len(page.jobs) == 20
        assert deep <= 2 * first + 200, f"{deep} steps instead of {first} for {filters}"


def test_reaping_costs_what_is_reaped(large_store):
    early = at(large_store, NOW - 10_000)
    none, reaped = steps(early, early.reap_expired())
    assert reaped == []
    assert none < 200
    twin = at(large_store, NOW)
    some, reaped = steps(twin, twin.reap_expired(limit=5))
    assert len(reaped) == 5
    assert some < 5 * 2_000


def test_ending_what_has_not_started_costs_what_is_ended(large_store):
    early = at(large_store, NOW - 200_000)
    none, ended = steps(early, early.end_unstarted())
    assert ended == []
    assert none < 200
    twin = at(large_store, NOW)
    some, ended = steps(twin, twin.end_unstarted(limit=5))
    assert len(ended) == 5
    assert some < 5 * 2_000


def test_a_purge_costs_what_is_deleted(large_store):
    early = at(large_store, NOW - 700_000)
    none, purged = steps(early, early.purge(JobStatus.SUCCESS, 0.0))
    assert purged == 0
    assert none < 200
    twin = at(large_store, NOW)
    some, purged = steps(twin, twin.purge(JobStatus.SUCCESS, 0.0, limit=50))
    assert purged == 50
    assert some < 50 * 2_000


def at(store, instant):
    """The store's face for this thread, at another time."""
    twin = store.inline()
    twin.time = StoreTime(FrozenClock(instant))
    return twin
