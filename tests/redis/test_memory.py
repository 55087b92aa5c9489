"""A server whose memory is full, that cannot save to disk, or that would drop keys: told clearly, nothing by halves."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.crash.telling import BEGINS, ENDS, SHORT, said
from tests.crash.workshop import Workshop, until
from tests.redis.consistency import assert_consistent
from tests.redis.losing import losing
from tests.servers.redis import RedisServer
from tinyjobs.backends.registry import open_backend
from tinyjobs.core import transitions
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held, Job, ScheduleMove, ScheduleState
from tinyjobs.core.status import JobStatus

LEASE = 60.0
ERROR = transitions.ExecutionError(error_type="builtins.ValueError", message="No", traceback="x" * 2_000)


@pytest.fixture
def server(make_redis: Callable[..., RedisServer]) -> RedisServer:
    return make_redis(maxmemory="3mb", **{"maxmemory-policy": "noeviction"})


@pytest.fixture
def store(server: RedisServer) -> Iterator[Any]:
    opened = open_backend(server.url(), clock=SystemClock()).inline()
    finish(opened.setup())
    yield opened
    finish(opened.close())


def job(number: int, **fields: Any) -> Job:
    return Job(id=f"{number:08}", task="t", payload=b"x" * 3_000, created_at=1.0, max_attempts=3, delay=0.0, **fields)


def fill(store: Any, first: int = 100) -> int:
    """Send until the server refuses, the last ones without a payload; how many it took."""
    number = first
    while True:
        try:
            finish(store.enqueue(job(number)))
        except StoreUnavailableError as error:
            assert "OOM" in str(error) and "maxmemory is reached" in str(error)
            return number - first
        number += 1


def whole(server: RedisServer) -> int:
    """The checker asks for memory as well, so there has to be some."""
    server.execute("CONFIG SET", "maxmemory", "0")
    count = assert_consistent(server.url())
    server.execute("CONFIG SET", "maxmemory", "3mb")
    return count


def test_a_full_server_refuses_jobs_whole_and_goes_on_when_there_is_space(server, store):
    taken = fill(store)
    many = [job(number) for number in range(50)]
    keyed = [job(number, key=f"key-{number}") for number in range(3)]
    delayed = Job(id="later", task="t", payload=b"x" * 3_000, delay=60.0, run_at=1.0)
    for verb in (
        lambda: store.enqueue_many(many),
        lambda: store.enqueue(keyed[0]),
        lambda: store.enqueue_many(keyed),
        lambda: store.enqueue(delayed),
    ):
        with pytest.raises(StoreUnavailableError, match="maxmemory is reached"):
            finish(verb())
        assert whole(server) == taken, "no part of a job that was refused is kept"
    server.execute("CONFIG SET", "maxmemory", "0")
    assert len(finish(store.enqueue_many(many))) == len(many)
    finish(store.enqueue(delayed))
    assert finish(store.counts_by_status())["queued"] == taken + len(many) + 1
    assert_consistent(server.url())


def test_a_full_server_lets_what_it_has_come_to_its_end(server, store):
    """Every verb that workers and people need: each of their scripts begins with a removal."""
    sent = [job(number) for number in range(12)]
    finish(store.enqueue_many(sent))
    finish(store.enqueue(Job(id="soon", task="t", payload=b"", delay=0.01, run_at=1.0)))
    lapsing = [
        Job(
            id=f"lapsing-{n}",
            task="t",
            queue="none",
            payload=b"",
            delay=9.0,
            run_at=9e9,
            expires_in=0.01,
            expires_at=9e9,
        )
        for n in range(2)
    ]
    finish(store.enqueue_many(lapsing))
    held = finish(store.claim(ClaimRequest(worker_id="w", limit=6, lease=LEASE))).jobs
    fleeting = finish(store.claim(ClaimRequest(worker_id="x", limit=2, lease=0.001))).jobs
    leases_end = finish(store.present()) + 0.02
    until(lambda: finish(store.present()) > leases_end)
    fill(store)
    server.execute("CONFIG SET", "maxmemory", "1")
    now = store.clock.now()

    assert len(finish(store.heartbeat([Held(each.id, each.claims) for each in held], LEASE))) == 6
    outcomes = [
        transitions.succeeded(held[0], None, now),
        transitions.succeeded(held[1], b"7" * 500, now),
        transitions.failed(held[2], ERROR, None, now),
        transitions.failed(held[3], ERROR, now + 60.0, now),
        transitions.handed_back(held[4], now),
        transitions.released(held[5], now),
    ]
    assert finish(store.record(outcomes[:1])).applied == [True]
    assert finish(store.record(outcomes[1:])).applied == [True] * 5
    assert len(finish(store.reap_expired())) == len(fleeting)
    claimed = finish(store.claim(ClaimRequest(worker_id="w", limit=3, lease=LEASE))).jobs
    assert len(claimed) == 3
    more = ClaimRequest(worker_id="w", limit=1, lease=LEASE)
    recorded = finish(store.record([transitions.succeeded(claimed[0], None, now)], more))
    assert recorded.applied == [True] and len(recorded.claimed.jobs) == 1
    assert finish(store.cancel(claimed[1].id))
    (queued,) = finish(store.list(status=JobStatus.QUEUED, queue="default", limit=1)).jobs
    assert finish(store.cancel(queued.id))
    assert finish(store.requeue(queued.id))
    assert len(finish(store.end_unstarted())) == len(lapsing)
    assert finish(store.drop_results("t", 0.0))[0] == 1
    assert finish(store.purge(JobStatus.SUCCESS, 0.0)) == 3
    assert finish(store.purge(JobStatus.CANCELLED, 0.0)) >= 1
    assert finish(store.claim_sweep(0.0))
    assert finish(store.next_due())[0] is True
    assert finish(store.stats()).by_status["running"] == 2
    whole(server)


def test_a_lost_claim_is_given_back_by_a_full_server_as_well(server, store):
    finish(store.enqueue_many([job(number) for number in range(3)]))
    twin, link = losing(store)
    fill(store)
    for loss in ("answer", "request"):
        link.losses = [("record", loss)]
        with pytest.raises(StoreUnavailableError):
            finish(twin.claim(ClaimRequest(worker_id="w", limit=3, lease=LEASE)))
    (taken,) = finish(twin.claim(ClaimRequest(worker_id="w", limit=1, lease=LEASE))).jobs
    assert taken.attempts == 1
    assert whole(server)


def test_a_firing_that_finds_the_server_full_has_not_happened(server, store):
    finish(
        store.register_schedules(
            [ScheduleState(name="s", cron="* * * * *", timezone="UTC", next_run_at=60.0, task="t")]
        )
    )
    fill(store)
    moves = [ScheduleMove(name="s", expected=60.0, next_run_at=120.0, jobs=[job(1)])]
    with pytest.raises(StoreUnavailableError, match="maxmemory is reached"):
        finish(store.fire_schedules(moves))
    assert [state.next_run_at for state in finish(store.schedules())] == [60.0]
    whole(server)
    server.execute("CONFIG SET", "maxmemory", "0")
    ((fired,),) = finish(store.fire_schedules(moves))
    assert fired.id == job(1).id


def test_a_worker_drains_a_full_server_without_a_word_and_jobs_are_taken_again(server, open_workshop):
    workshop: Workshop = open_workshop(server.url())
    server.execute("CONFIG SET", "maxmemory", "4mb")
    sent = 0
    with pytest.raises(StoreUnavailableError, match="maxmemory is reached"):
        while True:
            workshop.send("work", sent, 0.0)
            sent += 1
    worker = workshop.worker(**SHORT)
    until(lambda: len(workshop.ends()) == sent)
    until(lambda: workshop.app.stats().by_status["success"] == sent)
    assert worker.errors == ""
    server.execute("CONFIG SET", "maxmemory", "0")
    assert_consistent(server.url())
    last = workshop.send("note", 1)
    until(lambda: workshop.get(last).status == "success")
    assert {job.claims for job in workshop.jobs()} == {1}


def test_a_server_that_cannot_save_is_waited_for(make_redis, open_workshop):
    """By default it takes no writes then. What had ended meanwhile is recorded once it does."""
    server: RedisServer = make_redis(appendonly=False, dbfilename="gone.rdb", **{"stop-writes-on-bgsave-error": True})
    workshop: Workshop = open_workshop(server.url())
    gate = workshop.folder / "gate"
    held = [workshop.send("hold", str(gate)), workshop.send("ahold", str(gate))]
    worker = workshop.worker(**{**SHORT, "lease": 60.0})
    until(lambda: len(workshop.starts()) == 2)
    (server.folder / "gone.rdb").mkdir()  # so that it cannot be written, by root neither
    server.execute("CONFIG SET", "save", "1 1")
    until(lambda: server.execute("INFO", "persistence")["rdb_last_bgsave_status"] == "err")
    gate.touch()
    until(lambda: BEGINS in worker.errors)
    assert "MISCONF" in worker.errors and "cannot save to disk" in worker.errors
    with pytest.raises(StoreUnavailableError, match="cannot save to disk"):
        workshop.send("note", 1)
    server.execute("CONFIG SET", "save", "")
    (server.folder / "gone.rdb").rmdir()
    server.execute("BGSAVE")
    until(lambda: all(workshop.get(job).status == "success" for job in held))
    until(lambda: ENDS in worker.errors)
    assert len(said(worker)) == 2, worker.errors
    assert all(workshop.history(job) == ["success"] for job in held)
    assert assert_consistent(server.url()) == 2


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "noeviction"])
def test_a_server_that_would_drop_keys_is_warned_of(make_redis, make_app, caplog, policy):
    server: RedisServer = make_redis(**{"maxmemory-policy": policy})
    with caplog.at_level(logging.INFO, "tinyjobs.store"):
        make_app(server.url()).setup()
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [policy in record.getMessage() for record in warnings] == ([] if policy == "noeviction" else [True])


def test_a_server_that_does_not_tell_is_only_a_note(own_redis, make_app, caplog):
    own_redis.execute("ACL SETUSER", "shop", "on", "nopass", "~*", "&*", "+@all", "-info", "-config")
    with caplog.at_level(logging.INFO, "tinyjobs.store"):
        app = make_app(own_redis.url().replace("redis://", "redis://shop:any@"))
        app.setup()
    assert {record.levelname for record in caplog.records} == {"INFO"}
    app.task(name="t")(lambda: None)
    app.send("t")
    assert app.drain() == 1
