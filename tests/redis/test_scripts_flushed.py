"""A server that forgets its scripts, between any two steps: nobody sees anything of it."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.crash.telling import SHORT, all_succeeded
from tests.crash.workshop import until
from tests.redis.consistency import assert_consistent
from tests.servers.redis import RedisServer
from tinyjobs.backends.registry import open_backend
from tinyjobs.core import transitions
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held, Job, ScheduleMove, ScheduleState
from tinyjobs.core.status import JobStatus

pytestmark = pytest.mark.redis
LEASE = 60.0


def job(number: int, **fields: Any) -> Job:
    return Job(id=f"{number:08}", task="t", payload=b"[]", created_at=1.0, max_attempts=3, delay=0.0, **fields)


async def every_step(store: Any, flush: Callable[[], Any]) -> None:
    """Every verb there is, after each of which the scripts are gone."""

    async def call(verb: Any) -> Any:
        flush()
        return await verb

    request = ClaimRequest(worker_id="w", limit=2, lease=LEASE)
    state = ScheduleState(name="s", cron="* * * * *", timezone="UTC", next_run_at=60.0, task="t")
    await call(store.setup())
    await call(store.enqueue(job(1)))
    await call(store.enqueue_many([job(2), job(3), job(4)]))
    assert (await call(store.enqueue(job(5, key="k")))).id == job(5).id
    assert (await call(store.enqueue(job(6, key="k")))).existing
    assert (await call(store.holder("k"))).id == job(5).id
    one, two = (await call(store.claim(request))).jobs
    three = await call(store.claim_job(job(3).id, worker_id="w", lease=LEASE))
    held = [Held(each.id, each.claims) for each in (one, two, three)]
    assert len(await call(store.heartbeat(held, LEASE))) == 3
    now = SystemClock().now()
    recorded = await call(store.record([transitions.succeeded(one, b"7", now)], request))
    assert recorded.applied == [True] and len(recorded.claimed.jobs) == 2
    assert await call(store.cancel(two.id))
    assert await call(store.requeue(two.id))
    assert await call(store.reap_expired()) == []
    assert await call(store.end_unstarted()) == []
    assert (await call(store.next_due()))[0]
    assert (await call(store.get(one.id))).status is JobStatus.SUCCESS
    assert len(await call(store.executions(one.id))) == 1
    assert len((await call(store.list())).jobs) == 5
    assert (await call(store.stats())).by_status == (await call(store.counts_by_status()))
    assert (await call(store.drop_results("t", 0.0)))[0] == 1
    await call(store.register_schedules([state]))
    assert [each.name for each in await call(store.schedules())] == ["s"]
    move = ScheduleMove(name="s", expected=60.0, next_run_at=120.0, jobs=[job(7)])
    assert await call(store.fire_schedules([move])) != [None]
    assert await call(store.delete_schedule("s"))
    assert await call(store.claim_sweep(60.0))
    assert await call(store.purgeable(JobStatus.SUCCESS, 0.0)) == 1
    assert await call(store.purge(JobStatus.SUCCESS, 0.0)) == 1


@pytest.mark.parametrize("face", ["threads", "loop"])
def test_every_verb_goes_on(own_redis: RedisServer, face: str) -> None:
    store: Any = open_backend(own_redis.url(), clock=SystemClock())

    def flush() -> None:
        own_redis.execute("SCRIPT FLUSH")

    if face == "threads":
        finish(every_step(store.inline(), flush))
        finish(store.inline().close())
    else:

        async def go() -> None:
            await every_step(store, flush)
            await store.close()

        asyncio.run(go())
    assert_consistent(own_redis.url())


def test_a_worker_beside_whom_the_scripts_are_forgotten_all_the_time(own_redis, open_workshop):
    workshop = open_workshop(own_redis.url())
    worker = workshop.worker(**{**SHORT, "lease": 6.0, "reap_interval": 0.1})
    is_over = threading.Event()
    flushes = 0

    def flush() -> None:
        nonlocal flushes
        client = own_redis.client()
        while not is_over.wait(0.001):
            client.script_flush()
            flushes += 1
        client.close()

    flushing = threading.Thread(target=flush, daemon=True)
    flushing.start()
    sent = []
    for number in range(300):
        kind = number % 4
        task, arguments = (
            ("work", (number, 0.01)),
            ("awork", (number, 0.01)),
            ("note", (number,)),
            ("note", (number,)),
        )[kind]
        sent.append(
            workshop.send(task, *arguments, delay=0.2 if kind == 3 else None, key=f"k{number}" if kind == 2 else None)
        )
    again = workshop.send("fails_once", max_attempts=3)
    sent.append(workshop.send("work", 300, 5.0))  # past a renewal of its lease, which is at a third
    until(lambda: all_succeeded(workshop))
    is_over.set()
    flushing.join()
    assert flushes > 100
    assert workshop.history(again) == ["failed", "success"]
    assert all(stored.claims == 1 for stored in workshop.jobs() if stored.id != again)
    assert [line for line in worker.errors.splitlines() if "fails_once" not in line] == []
    assert assert_consistent(own_redis.url()) == len(sent) + 1
