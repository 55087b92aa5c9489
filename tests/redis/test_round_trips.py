"""How often the server is spoken to: one command for each step, and next to none by a worker that has nothing to do."""

import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.benchmarks.links import drain
from tests.crash.workshop import until
from tests.redis.resting import POLL, rest
from tests.redis.watching import watching
from tests.servers.link import slow_link
from tests.servers.redis import RedisServer
from tinyjobs.app.facade import TinyJobs

pytestmark = pytest.mark.redis


@pytest.fixture
def app(own_redis: RedisServer, make_app: Callable[..., TinyJobs]) -> TinyJobs:
    """On a server of its own, warm."""
    app = make_app(own_redis.url())
    app.task(name="note")(lambda number: None)
    app.task(name="plain", store_result=True)(lambda number: number)
    app.send("note", (0,))
    app.send("note", (0,), key="k", delay=0.001)
    app.engine.store.inline()
    app.send("note", (0,), delay=0.001)
    until(lambda: app.stats().next_due is None or app.stats().next_due < app.stats().now)
    app.drain()
    return app


def test_an_enqueue_is_one_command_also_where_somebody_is_to_be_woken(app, own_redis, open_workshop):
    open_workshop(own_redis.url()).worker(queues=["other"], poll=POLL)
    rest(own_redis, "qother")
    for options in ({}, {"delay": 60.0}, {"key": "mine"}, {"key": "mine"}, {"expires": 60.0}, {"priority": 3}):
        with watching(own_redis) as commands:
            app.send("note", (1,), **options)
        # The worker may look in between; that is the only script which only it calls here.
        assert commands.count("EVALSHA") in (1, 2), commands
    with watching(own_redis) as commands:
        for number in range(100):
            app.send("note", (number,))
    assert 100 <= commands.count("EVALSHA") <= 103
    assert set(commands) <= {"EVALSHA", "PING"}


@pytest.mark.parametrize(("count", "commands_needed"), [(1, 1), (1_000, 1), (1_001, 2), (2_500, 3)])
def test_many_jobs_take_a_command_for_each_thousand(app, own_redis, count, commands_needed):
    note = app.tasks["note"]
    note.enqueue_many([(number,) for number in range(2)])
    with watching(own_redis) as commands:
        note.enqueue_many([(number,) for number in range(count)])
    assert commands == ["EVALSHA"] * commands_needed


def test_a_turn_of_a_worker_is_one_command(app, own_redis):
    """It records what has ended and claims what comes next; with one slot there is a turn for each job."""
    for number in range(100):
        app.send("plain", (number,))
    with watching(own_redis) as commands:
        report = app.run_worker(concurrency=1, async_concurrency=1, until_empty=True)
    assert report.succeeded == 100
    counted = Counter(commands)
    assert counted["EVALSHA"] + counted["EVAL"] <= 100 + 20, counted
    assert sum(counted.values()) <= 100 + 30, counted
    for number in range(100):
        app.send("plain", (number,))
    with watching(own_redis) as commands:
        app.run_worker(concurrency=1, async_concurrency=25, until_empty=True)
        app.run_worker(concurrency=25, async_concurrency=1, until_empty=True)
    assert len(commands) <= 100 + 60


def test_a_drain_takes_two_commands_for_a_job(app, own_redis):
    for number in range(20):
        app.send("plain", (number,))
    with watching(own_redis) as commands:
        assert app.drain() == 20
    assert len(commands) <= 2 * 20 + 1


def test_an_idle_worker_sends_less_than_one_command_a_second(own_redis, open_workshop):
    workshop = open_workshop(own_redis.url())
    workshop.worker()
    warm = workshop.send("note", 0)
    workshop.send("note", 0, delay=3_600.0)
    until(lambda: workshop.get(warm).status == "success")
    until(lambda: own_redis.execute("EXISTS", "{tinyjobs}:asleep"))
    time.sleep(4.0)  # until its looks are as far apart as they come to be
    with watching(own_redis) as commands:
        time.sleep(8.0)
    print(f"\n{len(commands)} commands in 8 s: {Counter(commands)}")
    assert 0 < len(commands) < 8, Counter(commands)


@pytest.mark.slow
def test_a_worker_fills_its_slots_at_each_round_trip(own_redis):
    """Over a slow link three quarters at least of what its slots and the round trip allow.

    Two milliseconds on each way are enough on a free machine. One that is busy with other things adds to every turn
    what no link can make shorter, so it is given slower links: with two round trips for each turn a worker would miss
    on all of them. `tests.benchmarks.links` has the figures.
    """
    shares = []

    def is_filled(each_way: float) -> bool:
        with slow_link(own_redis.url(), each_way) as link:
            for _ in range(5):
                shares.append(drain(own_redis.url(), link, 4).share)
                if shares[-1] >= 0.75:
                    return True
        return False

    assert any(map(is_filled, (0.002, 0.004, 0.008, 0.016))), shares
