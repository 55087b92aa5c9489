"""Idle workers and jobs that others send: found at once, at their time, and whatever becomes of the wake-ups."""

import statistics
import time
from collections.abc import Callable

import pytest

from tests.crash.telling import seconds_to_a_start
from tests.crash.workshop import Workshop, until
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis

#: Between looks of a worker that believes in its wake-ups, at most, in seconds.
RARE = 2.0
#: The median of several starts is below that only where a wake-up brings it about, and also on a busy machine.
WOKEN = RARE / 4


@pytest.fixture
def workshop(own_redis: RedisServer, open_workshop: Callable[[str], Workshop]) -> Workshop:
    return open_workshop(own_redis.url())


def asleep(server: RedisServer) -> bool:
    return bool(server.execute("EXISTS", "{tinyjobs}:asleep"))


def picked_up(workshop: Workshop, server: RedisServer, count: int, **options: float) -> list[float]:
    """Send jobs one after the other, each to a worker that sleeps; how late each was started, by the server's clock."""
    late = []
    for number in range(count):
        until(lambda: asleep(server))
        job = workshop.send("note", number, **options)
        until(lambda job=job: workshop.get(job).status == "success")
        stored = workshop.get(job)
        late.append(stored.started_at - stored.run_at)
    return late


def test_a_due_job_wakes_an_idle_worker(workshop, own_redis):
    workshop.worker(queues=["default", "mail"])
    late = picked_up(workshop, own_redis, 40)
    print(f"\np50 {statistics.median(late) * 1000:.1f} ms, worst {max(late) * 1000:.1f} ms")
    assert min(late) >= 0.0
    assert statistics.median(late) < WOKEN, "polling alone takes far longer"


def test_a_delayed_job_of_another_process_starts_at_its_time(workshop, own_redis):
    workshop.worker()
    late = picked_up(workshop, own_redis, 7, delay=0.6)
    print(f"\np50 {statistics.median(late) * 1000:.1f} ms, worst {max(late) * 1000:.1f} ms")
    assert min(late) >= 0.0, "none is early"
    assert statistics.median(late) < WOKEN


def test_a_delayed_job_that_comes_before_the_others_is_heard_of(workshop, own_redis):
    workshop.worker()
    far = [workshop.send("note", number, delay=3_600.0) for number in range(3)]
    late = picked_up(workshop, own_redis, 3, delay=0.6)
    assert min(late) >= 0.0
    assert statistics.median(late) < WOKEN
    assert {workshop.get(job).status.value for job in far} == {"queued"}


def test_several_idle_workers_are_all_told(workshop, own_redis):
    """Two jobs in one call, of two queues that two of them serve."""
    for queue in ("one", "two"):
        workshop.worker(queues=[queue])
    took = []
    for _ in range(5):
        until(lambda: own_redis.execute("HLEN", "{tinyjobs}:asleep") == 2)
        began = time.monotonic()
        jobs = [workshop.send("note", 0, queue=queue) for queue in ("one", "two")]
        until(lambda jobs=jobs: set(workshop.ends()) >= set(jobs))
        took.append(time.monotonic() - began)
    assert statistics.median(took) < WOKEN


@pytest.mark.parametrize("how", ["the mark is gone", "the subscription is closed", "nothing is published"])
def test_whatever_becomes_of_the_wake_ups_polling_finds_the_job(workshop, own_redis, how):
    worker = workshop.worker()
    warm = workshop.send("note", 0)
    until(lambda: workshop.get(warm).status == "success")
    for number in range(3):
        until(lambda: asleep(own_redis))
        if how == "the mark is gone":
            own_redis.execute("DEL", "{tinyjobs}:asleep")
        elif how == "the subscription is closed":
            own_redis.execute("CLIENT KILL", "TYPE", "pubsub")
        else:
            own_redis.execute("CLIENT KILL", "TYPE", "pubsub")
            own_redis.execute("DEL", "{tinyjobs}:asleep")
        job = workshop.send("note", number)
        until(lambda job=job: workshop.ends(job))
    late = picked_up(workshop, own_redis, 5)
    assert statistics.median(late) < WOKEN, "and they arrive again"
    assert "WARNING" not in worker.errors, worker.errors


def test_jobs_of_another_database_of_the_server_wake_nobody(own_redis, open_workshop):
    """A server has its channels for all of its databases together."""
    first, second = (open_workshop(own_redis.url(number)) for number in (0, 1))
    for workshop in (first, second):
        workshop.worker()
    client = own_redis.client(1)
    with client, client.pubsub() as heard:
        heard.psubscribe("*")
        until(lambda: (heard.get_message(timeout=1.0) or {}).get("type") == "psubscribe")
        until(lambda: client.exists("{tinyjobs}:asleep"))
        picked_up(first, own_redis, 3)
        messages = list(iter(lambda: heard.get_message(timeout=0.5), None))
        topics = {message["channel"] for message in messages if message["data"] == b"default"}
        assert topics == {b"{tinyjobs}:wake"}
        assert set(own_redis.execute("PUBSUB", "CHANNELS")) == {b"{tinyjobs}:wake", b"{tinyjobs}:wake:1"}
        took = []
        for _ in range(5):
            until(lambda: client.exists("{tinyjobs}:asleep"))
            took.append(seconds_to_a_start(second))
        assert statistics.median(took) < WOKEN
