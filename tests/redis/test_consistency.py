"""The checker itself: each kind of harm is told, and a store that its own scripts made is whole."""

import pytest
import redis

from tests.redis.consistency import assert_consistent, inspect
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.core.status import JobStatus
from tinyjobs.testing import FrozenClock

TAG = "{tinyjobs}:"


@pytest.fixture
def filled(app, redis_url):
    """A store with a job in each state; gives a client of the driver's, and the ids by what they are."""
    for name in ("plain", "kept"):
        app.task(name=name, store_result=name == "kept")(lambda: 7)

    @app.task(name="fails")
    def fails():
        raise ValueError("No")

    ended = [app.send("plain"), app.send("kept"), app.send("fails")]
    app.drain()
    app.cancel(app.send("plain", queue="other"))
    running = app.send("plain", key="held")
    store = app.engine.store.inline()
    assert len(finish(store.claim(ClaimRequest(worker_id="w", limit=1, lease=60.0))).jobs) == 1
    delayed = app.send("plain", delay=600.0, expires=900.0)
    ready = app.send("plain", priority=3, queue="mail", key="mine")
    client = redis.Redis.from_url(redis_url)
    yield client, {"ended": ended[1].id, "running": running.id, "delayed": delayed.id, "ready": ready.id}
    client.close()


def test_what_the_scripts_make_is_whole(filled, redis_url):
    assert assert_consistent(redis_url) == 7


HARMS = {
    "a hash is gone": lambda client, ids: client.delete(f"{TAG}job:{ids['ready']}"),
    "a status is wrong": lambda client, ids: client.hset(f"{TAG}job:{ids['ready']}", "status", "running"),
    "a field is missing": lambda client, ids: client.hdel(f"{TAG}job:{ids['ready']}", "task"),
    "not in the queue": lambda client, ids: client.delete(f"{TAG}ready:mail"),
    "at another priority": lambda client, ids: client.hset(f"{TAG}job:{ids['ready']}", "priority", "4"),
    "not among the delayed": lambda client, ids: client.delete(f"{TAG}due"),
    "not among those that lapse": lambda client, ids: client.delete(f"{TAG}lapses"),
    "delayed and ready": lambda client, ids: client.hset(f"{TAG}job:{ids['ready']}", "delayed", "1"),
    "no lease": lambda client, ids: client.delete(f"{TAG}leases"),
    "not in the index": lambda client, ids: client.zrem(f"{TAG}index:all", ids["ended"]),
    "not in its queue's index": lambda client, ids: client.zrem(f"{TAG}index:queue:mail", ids["ready"]),
    "not in its status's index": lambda client, ids: client.zrem(f"{TAG}index:status:success", ids["ended"]),
    "left in an index": lambda client, ids: client.zadd(f"{TAG}index:status:failed", {"gone": 0}),
    "not among those that ended": lambda client, ids: client.delete(f"{TAG}finished:success"),
    "a result is not noted": lambda client, ids: client.delete(f"{TAG}results:kept"),
    "a result is gone": lambda client, ids: client.hdel(f"{TAG}job:{ids['ended']}", "result"),
    "a key is free": lambda client, ids: client.delete(f"{TAG}dedup:mine"),
    "a key is held by nobody": lambda client, ids: client.set(f"{TAG}dedup:theirs", "gone"),
    "a figure is wrong": lambda client, ids: client.hincrby(f"{TAG}counts", "ready|mail", 1),
    "a figure is gone": lambda client, ids: client.hdel(f"{TAG}queued_tasks", "plain"),
    "a queue is not known": lambda client, ids: client.zrem(f"{TAG}ready_queues", "mail"),
    "a history is left": lambda client, ids: client.hset(f"{TAG}executions:gone", "1", "[]"),
    "a claim that never was": lambda client, ids: client.hset(f"{TAG}executions:{ids['ended']}", "2", "[]"),
    "a schedule without a hash": lambda client, ids: client.zadd(f"{TAG}schedules", {"gone": 0}),
    "a worker that nobody has seen": lambda client, ids: client.hset(f"{TAG}workers", "w", "{}"),
    "a worker of whom nothing is known": lambda client, ids: client.zadd(f"{TAG}workers_seen", {"w": 1.0}),
    "figures that are none": lambda client, ids: [
        client.hset(key, "default", "1 0 0") for key in client.scan_iter(match=f"{TAG}tally:*")
    ],
    "figures that stay": lambda client, ids: [client.persist(key) for key in client.scan_iter(match=f"{TAG}tally:*")],
    "a key of nobody": lambda client, ids: client.set(f"{TAG}what", "1"),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
def test_every_kind_of_harm_is_told(filled, redis_url, harm):
    harm(*filled)
    assert inspect(redis_url)[0]


def test_jobs_of_one_call_that_share_a_key_become_the_first_though_that_has_expired(redis_url):
    """Its expiry had passed as it was sent. It is ended by whoever comes next, and leaves nothing behind."""
    clock = FrozenClock()
    store = open_backend(redis_url, clock=clock).inline()
    finish(store.setup())
    now = clock.now()
    for number, run_at in enumerate((now, now + 60.0)):
        first, second, third = (
            Job(id=f"{number}-{place}", task="t", key="k", run_at=run_at, expires_at=expires, payload=b"")
            for place, expires in enumerate((now - 1.0, None, None))
        )
        kept = finish(store.enqueue_many([first, second]))
        assert [(job.id, job.existing) for job in kept] == [(first.id, False), (first.id, True)]
        assert_consistent(redis_url)
        assert not finish(store.enqueue(third)).existing
        assert finish(store.get(first.id)).status is JobStatus.CANCELLED
        assert_consistent(redis_url)
        assert finish(store.cancel(third.id))
    finish(store.close())
