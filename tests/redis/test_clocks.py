"""Clocks that are wrong, that step, and processes that stand still, beside one Redis: the server's clock decides."""

import itertools
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.crash.telling import SHORT, said
from tests.crash.workshop import Workshop, until
from tests.crash.wrong_clocks import (  # noqa: F401 - the tests
    AHEAD,
    open_shifted,
    test_a_job_of_a_killed_worker_comes_back_after_its_lease_whatever_the_clocks_say,
    test_instants_that_a_worker_reports_are_moved_onto_the_servers_clock,
    test_two_workers_with_wrong_clocks_take_every_job_at_its_time_and_no_lease,
)
from tests.redis.consistency import assert_consistent
from tests.redis.wrong_clock import WrongClock, off_by, wrong_clock
from tests.servers.redis import RedisServer
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.core.transitions import handed_back

pytestmark = pytest.mark.redis


@pytest.fixture
def store_url(redis_url: str) -> str:
    return redis_url


@pytest.fixture
def workshop(redis_url: str, open_workshop: Callable[[str], Workshop]) -> Workshop:
    return open_workshop(redis_url)


@pytest.fixture
def clock() -> Iterator[WrongClock]:
    with wrong_clock() as made:
        yield made


@pytest.fixture
def server(make_redis: Callable[..., RedisServer], clock: WrongClock) -> RedisServer:
    """One whose clock the test sets."""
    return make_redis(program=clock.program)


@pytest.mark.parametrize("off", [7_200.0, -7_200.0])
def test_a_delay_counts_from_the_servers_clock_however_far_off_that_is(server, clock, open_workshop, off):
    clock.set(off)
    workshop = open_workshop(server.url())
    assert abs(off_by(server, time.time) - off) < 1.0, "it is wrong indeed"
    workshop.worker(**SHORT)
    warm = workshop.send("note", 0)
    until(lambda: workshop.get(warm).status == "success")
    began = time.monotonic()
    job = workshop.send("note", 1, delay=1.5)
    until(lambda: workshop.starts(job))
    assert time.monotonic() - began >= 1.5
    again = workshop.send("fails_once", max_attempts=2)
    until(lambda: workshop.get(again).status == "success")
    assert workshop.history(again) == ["failed", "success"]


@pytest.mark.parametrize("shift", [AHEAD, 0.0])
def test_a_job_that_is_handed_back_keeps_its_time_to_the_last_digit(redis_url, shift):
    """Python and Lua write one and the same instant in different digits now and then."""
    store = open_shifted(redis_url, shift)
    for number in range(50):
        finish(store.enqueue(Job(id=f"{number:08d}", task="note", payload=b"{}", max_attempts=3, delay=0.0)))
    jobs = finish(store.claim(ClaimRequest(worker_id="w", limit=50, lease=30.0))).jobs
    assert len({job.run_at for job in jobs}) > 25
    finish(store.record([handed_back(job, store.clock.now()) for job in jobs]))
    assert [finish(store.get(job.id)).run_at for job in jobs] == [job.run_at for job in jobs]
    finish(store.close())


def test_steps_of_the_servers_clock_take_no_lease_that_is_longer_and_lose_nothing(server, clock, open_workshop):
    """Steps of a third of the lease, forth and back; then one far beyond it, after which another runs what ran again.

    That one is made until it is seen: a renewal may come right behind a step, before anybody has looked. What the other
    runs by then it does not take back.
    """
    workshop = open_workshop(server.url())
    gate = workshop.folder / "gate"
    held = [workshop.send("hold", str(gate), max_attempts=5) for _ in range(2)]
    worker = workshop.worker(lease=9.0, reap_interval=3_600.0, concurrency=2)
    until(lambda: len(workshop.starts()) == 2)
    other = workshop.worker(lease=9.0, reap_interval=0.2, concurrency=2)
    for step in (3.0, 0.0, -3.0, 0.0):
        clock.set(step)
        job = workshop.send("anote", 1, delay=0.5)
        until(lambda job=job: workshop.get(job).status == "success")
        time.sleep(2.6)
    assert "taken back" not in other.errors and "no longer held" not in worker.errors
    steps = itertools.count(1)

    def are_taken_back() -> bool:
        if other.errors.count("was taken back") == 2:
            return True
        clock.set(600.0 * next(steps))
        return False

    until(are_taken_back, lambda: other.errors)
    gate.touch()
    until(lambda: all(workshop.get(job).status == "success" for job in held))
    assert [workshop.history(job) for job in held] == [["lost", "success"]] * 2
    assert said(worker) == [] and said(other) == []
    assert_consistent(server.url())


def test_a_worker_that_stood_still_past_its_lease_is_too_late_with_its_outcomes(workshop, redis_url):
    gate = workshop.folder / "gate"
    held = [workshop.send(task, str(gate), max_attempts=3) for task in ("hold", "ahold")]
    first = workshop.worker(lease=5.0, reap_interval=0.2)
    until(lambda: len(workshop.starts()) == 2)
    # First of all, since the one that stands still is not to miss what its connections were promised in time.
    second = workshop.worker(lease=5.0, reap_interval=0.2)
    first.send(signal.SIGSTOP)
    until(lambda: len(workshop.starts()) == 4)
    gate.touch()
    until(lambda: all(workshop.get(job).status == "success" for job in held))
    first.send(signal.SIGCONT)
    until(lambda: "came too late and was refused" in first.errors or "no longer held" in first.errors)
    last = workshop.send("note", 1)
    until(lambda: workshop.get(last).status == "success")
    assert [workshop.history(job) for job in held] == [["lost", "success"]] * 2
    assert said(first) == [] and said(second) == []
    assert_consistent(redis_url)


def test_a_server_that_stood_still_ends_no_lease_of_those_who_wait_for_it(own_redis, open_workshop):
    """Longer than a lease: the renewals that waited for it are carried out before what the reapers find is."""
    workshop = open_workshop(own_redis.url())
    gate = workshop.folder / "gate"
    held = [workshop.send(task, str(gate), max_attempts=3) for task in ("hold", "ahold")]
    lease = 4.0
    workers = [workshop.worker(lease=lease, reap_interval=0.2) for _ in range(2)]
    until(lambda: len(workshop.starts()) == 2)
    first = [workshop.get(job).lease_expires_at for job in held]
    # By a renewal: one whose connection has to be opened first may come behind the reapers.
    until(lambda: all(workshop.get(job).lease_expires_at > end for job, end in zip(held, first, strict=True)))
    own_redis.pause()
    time.sleep(lease + 2.0)
    own_redis.resume()
    time.sleep(1.0)
    gate.touch()
    until(lambda: all(workshop.get(job).status == "success" for job in held))
    assert [workshop.history(job) for job in held] == [["success"]] * 2
    assert all("taken back" not in worker.errors for worker in workers)
