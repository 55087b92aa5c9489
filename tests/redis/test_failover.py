"""A replica that becomes the primary: what was acknowledged and replicated is run, and everybody finds the new one."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.crash.telling import BEGINS, ENDS, RECOVERY, SHORT, not_succeeded, one_outage_told, said, seconds_to_a_start
from tests.crash.workshop import Workshop, until
from tests.redis.consistency import assert_consistent
from tests.redis.wrong_clock import WrongClock, off_by, wrong_clock
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisPair, RedisServer
from tinyjobs.core.errors import StoreUnavailableError

pytestmark = pytest.mark.redis


@pytest.fixture
def clock() -> Iterator[WrongClock]:
    with wrong_clock() as made:
        yield made


@pytest.fixture
def pair(make_redis_pair: Callable[..., RedisPair]) -> RedisPair:
    return make_redis_pair()


@pytest.fixture
def workshop(pair: RedisPair, open_workshop: Callable[[str], Workshop]) -> Workshop:
    return open_workshop(pair.url())


def test_a_failover_by_agreement_loses_and_repeats_nothing(workshop, pair):
    gate = workshop.folder / "gate"
    held = [workshop.send(task, str(gate)) for task in ("hold", "ahold")]
    workers = [workshop.worker(**{**SHORT, "lease": 30.0}, queues=[queue]) for queue in ("default", "mail")]
    warm = workshop.send("note", 0, queue="mail")
    until(lambda: len(workshop.starts()) == 3 and workshop.get(warm).status == "success")
    delayed = workshop.send("note", 1, delay=3.0)
    with one_outage_told(workers):
        pair.proxy.refuse()
        pair.failover()
        gate.touch()
        until(lambda: all(BEGINS in worker.errors for worker in workers))
        pair.proxy.accept()
        assert seconds_to_a_start(workshop) < RECOVERY
    until(lambda: all(workshop.get(job).status == "success" for job in (*held, delayed)))
    assert {job.claims for job in workshop.jobs()} == {1}
    assert assert_consistent(pair.primary.url()) == 5
    pair.rejoin()
    assert assert_consistent(pair.replica.url()) == 5, "the scripts did the same there"


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(3))
def test_what_the_replica_had_survives_the_death_of_the_primary(workshop, pair, turn):
    """In the middle of the work. What ran and was not replicated runs again, since its outcome is gone."""
    workers = [workshop.worker(**{**SHORT, "lease": 6.0}, concurrency=4) for _ in range(2)]
    gate = workshop.folder / "gate"
    sent = [workshop.send("work", number, 0.0) for number in range(40)]
    held = [workshop.send("hold", str(gate), max_attempts=10) for _ in range(2 * 4)]
    sent += [*held, *(workshop.send("work", number, 0.02, max_attempts=10) for number in range(250))]
    until(lambda: set(workshop.starts()) == set(sent[: 40 + len(held)]), "all slots hold before the rest is begun")
    # Not by WAIT: that is about what its own connection has written.
    pair.replica.wait_until_it_has_all_of(pair.primary)
    if turn:
        pair.replica.follow(None)  # so that all that comes now is certain to be lost
    gate.touch()
    until(lambda: len(workshop.ends()) > 40 + 40 * turn)
    pair.failover(loses_nothing=False)
    unreplicated = len(workshop.starts()) - 40
    until(lambda: set(workshop.ends()) >= set(sent), lambda: not_succeeded(workshop))
    until(lambda: workshop.app.stats().by_status["success"] == len(sent), lambda: not_succeeded(workshop))
    assert sorted(job.id for job in workshop.jobs()) == sorted(sent)
    again = len(workshop.starts()) - len(sent)
    # Of what is in flight, a worker has as much whose outcome is not recorded yet.
    in_flight = 2 * (4 + 4)
    assert 40 * turn - in_flight <= again <= unreplicated + 2 * in_flight
    assert_consistent(pair.primary.url())
    for worker in workers:
        assert not [line for line in said(worker) if BEGINS not in line and ENDS not in line], worker.errors


def test_a_primary_that_becomes_a_replica_under_its_clients_is_left_for_the_new_one(make_redis, open_workshop):
    """No connection is closed: that it takes no writes any more is all they are told."""
    old, new = make_redis(), make_redis()
    new.follow(old)
    new.wait_until_it_has_all_of(old)
    with Proxy.before(old.url()) as proxy:
        workshop: Workshop = open_workshop(proxy.url(old.url()))
        gate = workshop.folder / "gate"
        held = workshop.send("hold", str(gate))
        worker = workshop.worker(**{**SHORT, "lease": 30.0})
        until(lambda: workshop.starts(held))
        with one_outage_told([worker]):
            swap(old, new)
            gate.touch()
            until(lambda: BEGINS in worker.errors)
            assert "READONLY" in worker.errors
            proxy.point_at(new.url())
            until(lambda: workshop.get(held).status == "success")
        with pytest.raises(StoreUnavailableError, match="READONLY"):
            workshop.send("note", 0)  # its connection is still the one to the old primary
        assert seconds_to_a_start(workshop) < RECOVERY
        until(lambda: workshop.app.stats().by_status["running"] == 0)
        assert {job.claims for job in workshop.jobs()} == {1}
        assert assert_consistent(new.url()) >= 2
        workshop.close()


def swap(old: RedisServer, new: RedisServer) -> None:
    new.wait_until_it_has_all_of(old)
    new.follow(None)
    old.follow(new)
    until(lambda: old.execute("INFO", "replication")["master_link_status"] == "up")


@pytest.mark.parametrize("shift", [+3.0, -3.0])
def test_no_lease_ends_early_though_the_new_primary_has_another_time(make_redis, open_workshop, clock, shift):
    """Leases are renewed at a third of their length, so a difference of a third takes nothing from anybody."""
    old = make_redis()
    new = make_redis(program=clock.program, replicaof=old)
    new.wait_until_it_has_all_of(old)
    clock.set(shift)
    assert abs(off_by(new, time.time) - shift) < 0.5, "its clock is wrong indeed"
    with Proxy.before(old.url()) as proxy:
        workshop: Workshop = open_workshop(proxy.url(old.url()))
        gate = workshop.folder / "gate"
        held = [workshop.send("hold", str(gate), max_attempts=3) for _ in range(4)]
        workers = [workshop.worker(lease=9.0, reap_interval=0.2, concurrency=2) for _ in range(2)]
        until(lambda: len(workshop.starts()) == 4)
        for number in range(4):
            primary, replica = (old, new) if number % 2 == 0 else (new, old)
            swap(primary, replica)
            proxy.point_at(replica.url())
            proxy.cut()
            time.sleep(3.1)
        gate.touch()
        until(lambda: all(workshop.get(job).status == "success" for job in held))
        assert [workshop.history(job) for job in held] == [["success"]] * 4
        assert all("taken back" not in worker.errors and "no longer held" not in worker.errors for worker in workers)
        workshop.close()
