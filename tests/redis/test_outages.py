"""A Redis that goes away and comes back: every job ends once, a worker says so twice, and works on by itself."""

import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.crash.telling import (
    BEGINS,
    ENDS,
    RECOVERY,
    SHORT,
    all_succeeded,
    cut_the_network,
    not_succeeded,
    one_outage_told,
    said,
    seconds_to_a_start,
)
from tests.crash.workshop import Workshop, until
from tests.redis.consistency import assert_consistent
from tests.redis.resting import POLL, WOKEN, rest
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer
from tinyjobs.app.facade import TinyJobs

pytestmark = pytest.mark.redis


@pytest.fixture
def workshop(own_redis: RedisServer, open_workshop: Callable[[str], Workshop]) -> Workshop:
    return open_workshop(own_redis.url())


def quickest_start(workshop: Workshop, server: RedisServer) -> float:
    """The shorter of two times from a send to a start, each at a worker that will not look in the next seconds."""
    took = []
    for _ in range(2):
        rest(server)
        took.append(seconds_to_a_start(workshop))
    return min(took)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_worker_tells_of_a_restart_twice_and_goes_on_at_once(workshop, own_redis, how):
    """One at work, whose functions run through the restart, and one that has nothing to do."""
    gate = workshop.folder / "gate"
    held = [workshop.send("hold", str(gate), max_attempts=5) for _ in range(4)]
    workers = [workshop.worker(**{**SHORT, "lease": 30.0}, queues=[queue]) for queue in ("default", "mail")]
    before = [*held, workshop.send("note", 0, queue="mail")]
    until(lambda: len(workshop.starts()) == 5 and workshop.get(before[-1]).status == "success")
    with one_outage_told(workers):
        getattr(own_redis, how)()
        gate.touch()
        until(lambda: all(BEGINS in worker.errors for worker in workers))
        own_redis.start()
        later = [workshop.send("note", 0, queue=queue) for queue in ("default", "mail")]
        began = time.monotonic()
        until(lambda: set(later) <= set(workshop.ends()))
        assert time.monotonic() - began < RECOVERY
    until(lambda: all(workshop.get(job).status == "success" for job in (*before, *later)))
    assert Counter(workshop.starts()) == Counter((*before, *later)), "what ended meanwhile was kept and recorded"
    assert {job.claims for job in workshop.jobs()} == {1}
    assert_consistent(own_redis.url())


def test_a_worker_hears_again_after_five_restarts_in_a_row(workshop, own_redis):
    """Also with its connections closed by the server in between, and the server busy with something for a while."""
    lease = 6.0
    worker = workshop.worker(**{**SHORT, "lease": lease})
    first = workshop.send("note", 0)
    until(lambda: workshop.get(first).status == "success")
    for number in range(5):
        own_redis.stop()
        own_redis.start()
        for kind in ("normal", "pubsub") if number % 2 else ("pubsub", "normal"):
            own_redis.execute("CLIENT KILL", "TYPE", kind, "SKIPME", "yes")
    own_redis.execute("DEBUG", "SLEEP", "2")
    assert seconds_to_a_start(workshop) < RECOVERY
    until(lambda: worker.errors.count(BEGINS) == worker.errors.count(ENDS), worker.errors)
    assert not [line for line in said(worker) if BEGINS not in line and ENDS not in line]
    # Renewals, the reaper and what is delayed go on as well.
    gate = workshop.folder / "gate"
    held, delayed = workshop.send("hold", str(gate)), workshop.send("note", 1, delay=lease + 1.0)
    until(lambda: workshop.get(delayed).status == "success")
    assert workshop.get(held).status == "running"
    gate.touch()
    until(lambda: workshop.get(held).status == "success")
    assert workshop.history(held) == ["success"]


def test_an_idle_worker_is_woken_again_by_the_time_it_says_that_the_store_answers(workshop, own_redis):
    """Not by its next look alone: that is seconds away."""
    worker = workshop.worker(**SHORT, poll=POLL)
    warm = workshop.send("note", 0)
    until(lambda: workshop.get(warm).status == "success")
    with one_outage_told([worker]):
        own_redis.stop()
        until(lambda: BEGINS in worker.errors)
        own_redis.start()
    until(lambda: own_redis.execute("PUBSUB", "NUMSUB", "{tinyjobs}:wake")[1] == 1)
    assert quickest_start(workshop, own_redis) < WOKEN


@pytest.mark.slow
def test_a_silent_network_is_told_of_and_survived(own_redis, make_proxy, open_workshop):
    """Bytes are held for a while, on connections that stay: nothing is lost, and nothing runs twice."""
    proxy: Proxy = make_proxy(own_redis.url())
    workshop = open_workshop(proxy.url(own_redis.url()))
    jobs = [workshop.send("work", number, 0.02, max_attempts=5) for number in range(200)]
    worker = workshop.worker(**{**SHORT, "lease": 12.0}, concurrency=2)
    until(lambda: len(workshop.ends()) > 20)
    for _ in range(3):
        proxy.stall()
        time.sleep(1.0)
        proxy.resume()
        time.sleep(0.3)
    until(lambda: len(workshop.ends()) >= len(jobs))
    until(lambda: all_succeeded(workshop))
    assert Counter(workshop.starts()) == Counter(jobs)
    assert said(worker) == []


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_half_open_connections_are_given_up_within_the_stated_time(own_redis, make_proxy, open_workshop, busy):
    """As behind a firewall that forgot them: whatever is sent is lost without a word. Enqueues meet the same."""
    patience = 2.0
    proxy: Proxy = make_proxy(own_redis.url())
    options = f"?socket_timeout={patience}"
    workshop = open_workshop(own_redis.url() + options)
    workshop.url = proxy.url(own_redis.url()) + options
    sender = TinyJobs(workshop.url)
    gate = workshop.folder / "gate"
    worker = workshop.worker(**{**SHORT, "lease": 30.0})
    first = [sender.send("note", (0,)).id, *([sender.send("hold", (str(gate),)).id] if busy else [])]
    until(lambda: len(workshop.starts()) == len(first) and workshop.get(first[0]).status == "success")
    proxy.swallow()
    proxy.restore()
    gate.touch()
    assert seconds_to_a_start(workshop) < patience + RECOVERY
    began = time.monotonic()
    with pytest.raises(Exception, match="no answer within"):
        sender.send("note", (1,))
    assert time.monotonic() - began < patience + RECOVERY
    last = sender.send("note", (2,)).id
    until(lambda: all(workshop.get(job).status == "success" for job in [*first, last]))
    assert {len(workshop.history(job)) for job in [*first, last]} == {1}
    assert not [line for line in said(worker) if BEGINS not in line and ENDS not in line], worker.errors
    sender.close()


def test_an_idle_worker_says_nothing_however_short_the_timeout_of_its_connections(own_redis, open_workshop):
    """Its waits for a wake-up are longer than that; nothing is reopened either."""
    workshop = open_workshop(own_redis.url() + "?socket_timeout=0.5")
    worker = workshop.worker(**SHORT, poll=POLL)
    first = workshop.send("note", 0)
    until(lambda: workshop.get(first).status == "success")
    until(lambda: own_redis.execute("EXISTS", "{tinyjobs}:asleep"))
    before = own_redis.execute("INFO", "stats")["total_connections_received"]
    time.sleep(5.0)
    assert own_redis.execute("INFO", "stats")["total_connections_received"] - before <= 1
    assert worker.errors == ""
    assert worker.is_running
    assert quickest_start(workshop, own_redis) < WOKEN, "far less than from one look to the next"


# --- what is not kept ---------------------------------------------------------------------------------------------


def test_a_restart_that_loses_everything_is_survived_by_all(make_redis, open_workshop):
    """Without persistence the queue is gone; workers and senders go on, and a new process finds its store as new."""
    server: RedisServer = make_redis(appendonly=False)
    workshop = open_workshop(server.url())
    gate = workshop.folder / "gate"
    workshop.send("hold", str(gate))
    worker = workshop.worker(**SHORT)
    until(lambda: len(workshop.starts()) == 1)
    with one_outage_told([worker]):
        server.stop()
        until(lambda: BEGINS in worker.errors)
        server.start()
        later = workshop.send("note", 1)
        until(lambda: workshop.ends(later))
    gate.touch()
    until(lambda: len(workshop.ends()) == 2)
    until(lambda: workshop.get(later).status == "success")
    another = TinyJobs(server.url())
    another.setup()
    assert set(server.execute("HGETALL", "{tinyjobs}:meta")) >= {b"layout", b"schema_version", b"compatible_since"}
    another.close()
    assert assert_consistent(server.url()) == 1


@pytest.mark.parametrize("flushed", ["FLUSHALL", "FLUSHDB"])
def test_a_store_that_is_emptied_under_a_running_worker(workshop, own_redis, flushed):
    gate = workshop.folder / "gate"
    held = workshop.send("hold", str(gate))
    for number in range(20):
        workshop.send("note", number, delay=600.0)
    worker = workshop.worker(**SHORT)
    until(lambda: workshop.starts(held))
    own_redis.execute(flushed)
    later = [workshop.send("note", number, key="k" if number else None) for number in range(2)]
    until(lambda: set(later) <= set(workshop.ends()))
    gate.touch()
    until(lambda: all(workshop.get(job).status == "success" for job in later))
    until(lambda: "came too late and was refused" in worker.errors)
    another = TinyJobs(own_redis.url())
    another.setup()
    another.close()
    assert assert_consistent(own_redis.url()) == 2
    assert said(worker) == []


# --- and all of it at once ------------------------------------------------------------------------------------------

#: How long the network is cut for, and how often the rest happens.
CUT, RESTARTS, KILLS, JOBS = 10.0, 5, 20, 2_000


@pytest.mark.slow
def test_two_thousand_jobs_through_restarts_killed_connections_and_a_long_cut(own_redis, make_proxy, open_workshop):
    """Each ends once, in success; what runs again had been in flight at one of the blows."""
    proxy: Proxy = make_proxy(own_redis.url())
    workshop = open_workshop(proxy.url(own_redis.url()))
    sender = workshop.app
    workers = [workshop.worker(**SHORT, concurrency=4, async_concurrency=4) for _ in range(2)]
    workshop.wait_until_seen(*workers)
    slots, blows = 2 * (4 + 4), RESTARTS + KILLS + 1
    batch = -(-JOBS // blows)
    sent: list[str] = []

    def blow(number: int) -> None:
        if number in range(0, blows - 1, blows // RESTARTS):
            own_redis.restart() if number % 2 else (own_redis.kill(), own_redis.start())
        elif number < blows - 1:
            assert own_redis.drop_clients()
        else:
            cut_the_network(proxy, workers, CUT)

    for number in range(blows):
        ended = len(workshop.ends())
        for place in range(len(sent), min(len(sent) + batch, JOBS)):
            task = ("work", "awork")[place % 2]
            sent.append(sender.send(task, (place, 0.02), max_attempts=50).id)
        until(lambda ended=ended: len(workshop.ends()) >= ended + batch // 3, lambda: not_succeeded(workshop))
        # What a blow is told of is not to be the end of the one before.
        until(
            lambda: all(worker.errors.count(BEGINS) == worker.errors.count(ENDS) for worker in workers),
            lambda: [worker.errors for worker in workers],
        )
        blow(number)
        until(lambda: len(set(workshop.ends())) >= len(sent), lambda: not_succeeded(workshop))
        until(lambda: all_succeeded(workshop), lambda: not_succeeded(workshop))

    jobs = {job.id: job for job in workshop.jobs()}
    assert sorted(jobs) == sorted(sent) and len(sent) == JOBS
    runs = Counter(workshop.starts())
    for job_id, job in jobs.items():
        history = workshop.history(job_id)
        assert history[-1] == "success" and history.count("success") == 1
        assert set(history[:-1]) <= {"lost"}
        assert runs[job_id] >= 1 and len(history) <= job.claims
    again = sum(runs.values()) - JOBS
    assert again <= blows * slots
    lines = [line for worker in workers for line in said(worker)]
    assert not [line for line in lines if BEGINS not in line and ENDS not in line and "wake-ups do not" not in line]
    for worker in workers:
        # Once for each blow at most. A worker may meet one only after the next batch has begun.
        until(
            lambda worker=worker: blows >= worker.errors.count(BEGINS) == worker.errors.count(ENDS) >= 1, worker.errors
        )
        assert "Traceback" not in worker.errors
    assert assert_consistent(own_redis.url()) == JOBS
    print(
        f"\n{JOBS} jobs, {blows} blows: {again} ran again, {[worker.errors.count(BEGINS) for worker in workers]} told"
    )
