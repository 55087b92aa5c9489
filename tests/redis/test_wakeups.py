"""Idle workers and jobs that others send: found at once, at their time, and whatever becomes of the wake-ups."""

import statistics
from collections.abc import Callable

import pytest

from tests.crash.workshop import Workshop, until
from tests.redis.resting import POLL, WOKEN, rest
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


@pytest.fixture
def workshop(own_redis: RedisServer, open_workshop: Callable[[str], Workshop]) -> Workshop:
    return open_workshop(own_redis.url())


def asleep(server: RedisServer) -> bool:
    return bool(server.execute("EXISTS", "{tinyjobs}:asleep"))


def picked_up(
    workshop: Workshop, server: RedisServer, count: int, *, mark: str = "*", database: int = 0, **options: float | str
) -> list[float]:
    """Send jobs one after the other, each to a worker that looks no more; how late each was, by the server's clock.

    The worker's `poll` is POLL. If nobody told it of a job, that would be late by `AWAY` at least.
    """
    late = []
    for number in range(count):
        rest(server, mark, database=database)
        job = workshop.send("note", number, **options)
        until(lambda job=job: workshop.get(job).status == "success")
        stored = workshop.get(job)
        late.append(stored.started_at - stored.run_at)
    print(f"\np50 {statistics.median(late) * 1000:.1f} ms, worst {max(late) * 1000:.1f} ms")
    return late


@pytest.mark.parametrize("queues", [["default", "mail"], None], ids=["of its queue", "of any"])
def test_a_due_job_wakes_an_idle_worker(workshop, own_redis, queues):
    workshop.worker(poll=POLL, **({"queues": queues} if queues else {}))
    late = picked_up(workshop, own_redis, 3, mark="qdefault" if queues else "*")
    assert min(late) >= 0.0
    assert statistics.median(late) < WOKEN, "polling alone takes far longer"


def test_a_delayed_job_of_another_process_starts_at_its_time(workshop, own_redis):
    workshop.worker(poll=POLL)
    late = picked_up(workshop, own_redis, 2, delay=0.6)
    assert 0.0 <= min(late) < WOKEN, "none is early"


def test_a_delayed_job_that_comes_before_the_others_is_heard_of(workshop, own_redis):
    workshop.worker(poll=POLL)
    far = [workshop.send("note", number, delay=3_600.0) for number in range(3)]
    late = picked_up(workshop, own_redis, 2, delay=0.6)
    assert 0.0 <= min(late) < WOKEN
    assert {workshop.get(job).status.value for job in far} == {"queued"}


def test_several_idle_workers_are_all_told(workshop, own_redis):
    """Each of the job in its own queue, also when the other has just been told of one."""
    for queue in ("one", "two"):
        workshop.worker(queues=[queue], poll=POLL)
    late = []
    for _ in range(2):
        rest(own_redis, "qone", "qtwo")
        jobs = [workshop.send("note", 0, queue=queue) for queue in ("one", "two")]
        until(lambda jobs=jobs: all(workshop.get(job).status == "success" for job in jobs))
        late.append(max(workshop.get(job).started_at - workshop.get(job).run_at for job in jobs))
    assert min(late) < WOKEN


@pytest.mark.parametrize("how", ["the mark is gone", "the subscription is closed", "nothing is published"])
def test_whatever_becomes_of_the_wake_ups_polling_finds_the_job(workshop, own_redis, how):
    worker = workshop.worker(poll=2.0)
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
    assert "WARNING" not in worker.errors, worker.errors


def test_a_worker_whose_subscription_was_closed_is_woken_again(workshop, own_redis):
    worker = workshop.worker(poll=POLL)
    until(lambda: asleep(own_redis))
    assert own_redis.execute("CLIENT KILL", "TYPE", "pubsub") == 1
    until(lambda: own_redis.execute("PUBSUB", "CHANNELS"))
    assert min(picked_up(workshop, own_redis, 2)) < WOKEN
    assert "WARNING" not in worker.errors, worker.errors


def test_jobs_of_another_database_of_the_server_wake_nobody(own_redis, open_workshop):
    """A server has its channels for all of its databases together."""
    first, second = (open_workshop(own_redis.url(number)) for number in (0, 1))
    for workshop in (first, second):
        workshop.worker(poll=POLL)
    client = own_redis.client(1)
    with client, client.pubsub() as heard:
        heard.psubscribe("*")
        until(lambda: (heard.get_message(timeout=1.0) or {}).get("type") == "psubscribe")
        until(lambda: client.exists("{tinyjobs}:asleep"))
        assert min(picked_up(first, own_redis, 2)) < WOKEN
        messages = list(iter(lambda: heard.get_message(timeout=0.5), None))
        topics = {message["channel"] for message in messages if message["data"] == b"default"}
        assert topics == {b"{tinyjobs}:wake"}
        assert set(own_redis.execute("PUBSUB", "CHANNELS")) == {b"{tinyjobs}:wake", b"{tinyjobs}:wake:1"}
        assert min(picked_up(second, own_redis, 2, database=1)) < WOKEN
