"""The figures where much has come due at once: told in steps, none of which keeps the server for long."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.redis.losing import LosingLink, losing
from tinyjobs.backends.redis.backend import RedisBackend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.testing import FrozenClock

pytestmark = pytest.mark.redis

ROUND = 1_000


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def opened(redis_url: str, clock: FrozenClock) -> Iterator[tuple[Any, LosingLink]]:
    backend = open_backend(redis_url, clock=clock)
    assert isinstance(backend, RedisBackend)
    store, link = losing(backend)
    finish(store.setup())
    yield store, link
    finish(backend.inline().close())


def send_delayed(store: Any, clock: FrozenClock, count: int) -> None:
    now = clock.now()
    jobs = [
        Job(
            id=f"{number:08x}-0000-7000-8000-{number:012x}", task="t", queue=f"q{number % 3}", payload=b"",
            created_at=now, delay=10.0 + number / 100,
        )
        for number in range(count)
    ]  # fmt: skip
    finish(store.enqueue_many(jobs))


@pytest.mark.parametrize("due", [1, ROUND - 1, ROUND, ROUND + 1, 2 * ROUND, 2 * ROUND + 500])
def test_what_has_come_due_is_counted_by_the_thousand(opened, clock, due):
    store, link = opened
    send_delayed(store, clock, due + 30)
    began = clock.now()
    clock.advance(10.0 + (due - 0.5) / 100)
    link.ran.clear()
    stats = finish(store.stats())
    assert link.ran == ["stats"] + ["more_stats"] * (due // ROUND)
    assert sum(queue.ready for queue in stats.queues) == due
    assert sum(queue.delayed for queue in stats.queues) == 30
    assert stats.next_due == began + 10.0
    first = [queue.oldest_due - began for queue in stats.queues if queue.ready]
    assert first == [pytest.approx(10.0 + number / 100) for number in range(min(due, 3))]


def test_a_claim_between_two_steps_makes_no_figure_negative(opened, clock, monkeypatch):
    store, link = opened
    send_delayed(store, clock, 2 * ROUND + 100)
    clock.advance(1_000.0)
    run = link.run

    async def run_after_a_claim(script, keys, arguments):
        if script.name == "more_stats":
            await store.claim(ClaimRequest(worker_id="w", limit=150, lease=30.0))
        return await run(script, keys, arguments)

    monkeypatch.setattr(link, "run", run_after_a_claim)
    stats = finish(store.stats())
    assert all(queue.ready >= 0 and queue.delayed >= 0 for queue in stats.queues)
    ready, delayed = (sum(getattr(queue, name) for queue in stats.queues) for name in ("ready", "delayed"))
    assert ready + delayed == 2 * ROUND + 100
    assert finish(store.counts_by_status())["running"] > 0, "there was a claim"


@pytest.mark.parametrize(("priorities", "looked_at"), [(900, 901), (1_500, ROUND)])
def test_a_bounded_number_of_priorities_is_looked_at(clock, opened, priorities, looked_at):
    store, _ = opened
    now = clock.now()
    jobs = [
        Job(
            id=f"{number:08x}-0000-7000-8000-{number:012x}", task="t", payload=b"", priority=-number, created_at=now,
            run_at=now - number,
        )
        for number in range(priorities)
    ]  # fmt: skip
    finish(store.enqueue_many(jobs))
    (queue,) = finish(store.stats()).queues
    assert queue.ready == priorities
    assert queue.oldest_due == now - min(looked_at, priorities) + 1
