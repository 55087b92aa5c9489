"""What is kept for whoever watches, as only this store has it: how much work it is, and a full or spoilt server."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import redis

from tests.redis.consistency import assert_consistent, inspect
from tests.redis.losing import LosingLink, losing
from tests.servers.redis import RedisServer
from tinyjobs.backends.redis.backend import RedisBackend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core import transitions
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import Outcome
from tinyjobs.core.watching import FORGOTTEN_AFTER, Tally, WorkerSeen
from tinyjobs.testing import FrozenClock

pytestmark = pytest.mark.redis

TAG = "{tinyjobs}:"
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0


class Watched:
    """A store in a world of its own time, the scripts that its calls take, and a client of the driver's beside it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FrozenClock()
        # The beginning of a quarter of an hour.
        self.clock.advance(-self.clock.now() % 900.0)
        backend = open_backend(url, clock=self.clock)
        assert isinstance(backend, RedisBackend)
        self.store: Any
        self.link: LosingLink
        self.store, self.link = losing(backend)
        finish(self.store.setup())
        self.client: Any = redis.Redis.from_url(url)

    def send(self, *ids: int, **fields: Any) -> list[Job]:
        now = self.clock.now()
        fields = {"task": "t", "payload": b"[]", "max_attempts": 1, "run_at": now, "created_at": now, **fields}
        jobs = [Job(id=f"{number:08x}-0000-7000-8000-{number:012x}", **fields) for number in ids]
        finish(self.store.enqueue_many(jobs))
        return jobs

    def claim(self, limit: int) -> list[Job]:
        return list(finish(self.store.claim(ClaimRequest(worker_id="w", limit=limit, lease=30.0))).jobs)

    def run(self, *ids: int, result: bytes | None = None, **fields: Any) -> None:
        """Send the jobs, and have them end at once."""
        self.send(*ids, **fields)
        now = self.clock.now()
        self.record(*(transitions.succeeded(job, result, now) for job in self.claim(len(ids))))

    def record(self, *outcomes: Outcome) -> None:
        assert all(finish(self.store.record(outcomes)).applied)

    def put_tally(self, start: float, queue: str = "default", numbers: str = "1 0 0 2.0 0.5 2.0 0.5") -> None:
        """As a worker long ago would have written it."""
        self.client.hset(f"{TAG}tally:{start:.0f}", queue, numbers)

    def tallies(self, since: float) -> list[Tally]:
        self.link.ran.clear()
        found: list[Tally] = finish(self.store.tallies(since))
        return found


@pytest.fixture
def watched(redis_url: str) -> Iterator[Watched]:
    opened = Watched(redis_url)
    yield opened
    finish(opened.store.close())
    opened.client.close()


# --- what ended by the minute ---


def test_a_day_is_told_by_quarters_of_an_hour_and_its_last_hour_by_minutes(watched):
    """In pieces of four hours, so that the server is never kept for long."""
    now = watched.clock.now()
    for minutes in range(-26 * 60, 1):
        watched.put_tally(now + minutes * MINUTE)
    found = watched.tallies(now - 2 * DAY)
    assert watched.link.ran == ["tallies"] * 7, "a day has 1,440 minutes and the one that is under way"
    quarters, minutes = found[: 23 * 4], found[23 * 4 :]
    assert [tally.start for tally in quarters] == [now - DAY + number * 900 for number in range(23 * 4)]
    assert [tally.start for tally in minutes] == [now - HOUR + number * MINUTE for number in range(61)]
    assert {(each.seconds, each.succeeded, each.waited, each.ran, each.longest_wait) for each in quarters} == {
        (900.0, 15, 30.0, 7.5, 2.0)
    }
    assert {(each.seconds, each.succeeded, each.waited, each.ran, each.longest_run) for each in minutes} == {
        (60.0, 1, 2.0, 0.5, 0.5)
    }


@pytest.mark.parametrize("ago", [0.0, 59.0, 61.0, HOUR - 1, HOUR, HOUR + 1, 5 * HOUR + 100, DAY - 1, DAY])
def test_the_span_that_since_lies_in_is_whole(watched, ago):
    """At any moment within a quarter of an hour; spans touch each other and none overlap."""
    start = watched.clock.now()
    for minutes in range(-25 * 60, 30):
        watched.put_tally(start + minutes * MINUTE)
    for later in (0.0, 30.0, 8 * MINUTE, 899.0):
        watched.clock.advance(start + later - watched.clock.now())
        since = watched.clock.now() - ago
        found = watched.tallies(since)
        assert found[0].start <= since < found[0].start + found[0].seconds
        assert all(one.start + one.seconds == other.start for one, other in pairwise(found))
        assert found[-1].start <= watched.clock.now() < found[-1].start + 60
        assert {tally.seconds for tally in found if tally.start + tally.seconds > watched.clock.now() - HOUR} == {60}
        assert sum(tally.succeeded for tally in found) == sum(tally.seconds for tally in found) / 60


def test_many_queues_are_told_in_smaller_pieces(watched):
    now = watched.clock.now()
    for minutes in range(-100, 0):
        row = {f"queue-{number}": "1 2 3 1.0 2.0 0.5 0.25" for number in range(200)}
        watched.client.hset(f"{TAG}tally:{now + minutes * MINUTE:.0f}", mapping=row)
    found = watched.tallies(now - 100 * MINUTE)
    assert len(watched.link.ran) >= 4
    assert {tally.queue for tally in found} == {f"queue-{number}" for number in range(200)}
    assert [(each.start, each.queue) for each in found] == sorted((each.start, each.queue) for each in found)
    for name, sum_of_all in (("succeeded", 1), ("unsuccessful", 2), ("cancelled", 3), ("waited", 1), ("ran", 2)):
        assert sum(getattr(tally, name) for tally in found) == sum_of_all * 100 * 200


def test_a_group_of_outcomes_costs_two_commands_for_each_queue(make_redis):
    server: RedisServer = make_redis()
    watched = Watched(server.url())
    for jobs, queues in ((1, 1), (100, 1), (100, 4)):
        for number in range(jobs):
            watched.send(jobs * queues * 1_000 + number, queue=f"queue-{number % queues}")
        claimed = watched.claim(jobs)
        server.execute("CONFIG RESETSTAT")
        now = watched.clock.now()
        watched.record(*(transitions.succeeded(job, None, now) for job in claimed))
        calls = {name: told["calls"] for name, told in server.execute("INFO", "commandstats").items()}
        assert calls["cmdstat_hget"] == queues
        assert calls["cmdstat_hset"] == jobs + queues, "each job's hash, and the queues' figures"
    finish(watched.store.close())
    watched.client.close()


def test_what_ended_long_ago_counts_where_it_belongs_or_not_at_all(watched):
    """A worker that was cut off may tell days later. Nothing is written that would never go away."""
    watched.send(1, 2, 3)
    jobs = watched.claim(3)
    began = watched.clock.now()
    watched.clock.advance(20 * HOUR)
    now = watched.clock.now()
    watched.record(
        transitions.succeeded(jobs[0], None, began + 90),
        transitions.succeeded(jobs[1], None, now),
        transitions.succeeded(jobs[2], None, now - 2 * DAY),
    )
    found = [(tally.start, tally.succeeded) for tally in watched.tallies(now - DAY)]
    assert found == [(began, 1), (now, 1)]
    keys = {key.decode().removeprefix(TAG): watched.client.ttl(key) for key in watched.client.keys(f"{TAG}tally:*")}
    assert keys.keys() == {f"tally:{began + 60:.0f}", f"tally:{now:.0f}"}
    assert 4 * HOUR < keys[f"tally:{began + 60:.0f}"] < 5 * HOUR
    assert DAY < keys[f"tally:{now:.0f}"] < DAY + HOUR
    assert_consistent(watched.url)


@pytest.mark.parametrize("spoilt", ["", "x", "1 2 3", "1 2 3 4 5 6 seven", "1 0 0 1.0 1.0 1.0 nan", b"\xff\x00"])
def test_figures_that_somebody_spoilt_stand_in_nobodys_way(watched, spoilt):
    watched.put_tally(watched.clock.now(), numbers=spoilt)
    assert [tally.attempts for tally in watched.tallies(0.0)] == [0]
    watched.run(1, 2)
    assert [tally.succeeded for tally in watched.tallies(0.0)] == [2]


def test_figures_are_kept_for_queues_of_every_name(watched):
    names = ["default", "a b", "ä|ö", 'quo"te\\', "x" * 255, "1"]
    for number, name in enumerate(names):
        watched.run(number, queue=name)
    assert [tally.queue for tally in watched.tallies(0.0)] == sorted(names)


# --- workers ---


def test_a_beat_forgets_ten_of_the_silent_at_most(watched):
    def beat(name: str) -> None:
        finish(watched.store.beat(WorkerSeen(worker_id=name, host="h", pid=1, version="1", started_at=1.0)))

    def kept() -> tuple[int, int]:
        return watched.client.hlen(f"{TAG}workers"), watched.client.zcard(f"{TAG}workers_seen")

    for number in range(25):
        beat(f"silent-{number}")
        watched.clock.advance(1)
    watched.clock.advance(FORGOTTEN_AFTER - 1)
    for left in (15, 5, 0, 0):
        beat("lively")
        assert kept() == (left + 1, left + 1)
    assert [worker.worker_id for worker in finish(watched.store.workers())] == ["lively"]
    assert_consistent(watched.url)


# --- a server that is full ---


@pytest.fixture
def full() -> Any:
    def fill(store: Any) -> int:
        number = 1_000
        with pytest.raises(StoreUnavailableError, match="OOM"):
            while True:
                fields: dict[str, Any] = {"task": "t", "payload": b"x" * 3_000, "created_at": 1.0, "delay": 0.0}
                finish(store.enqueue(Job(id=f"{number:08}", **fields)))
                number += 1
        return number - 1_000

    return fill


def test_a_full_server_still_hears_of_workers_and_deletes(make_redis, full):
    server: RedisServer = make_redis(maxmemory="3mb", **{"maxmemory-policy": "noeviction"})
    store: Any = open_backend(server.url(), clock=SystemClock()).inline()
    finish(store.setup())
    full(store)
    server.execute("CONFIG SET", "maxmemory", "1")
    worker = WorkerSeen(worker_id="w", host="h", pid=1, version="1", started_at=1.0)
    finish(store.beat(worker))
    assert [seen.worker_id for seen in finish(store.workers())] == ["w"]
    (job,) = finish(store.claim(ClaimRequest(worker_id="w", limit=1, lease=60.0))).jobs
    assert all(finish(store.record([transitions.succeeded(job, b"7", store.clock.now())])).applied)
    assert [tally.succeeded for tally in finish(store.tallies(store.clock.now() - HOUR))] == [1]
    assert finish(store.delete(job.id)) and finish(store.get(job.id)) is None
    finish(store.sign_off("w"))
    assert finish(store.workers()) == []
    finish(store.close())
    server.execute("CONFIG SET", "maxmemory", "0")
    assert_consistent(server.url())


def test_a_server_that_may_drop_what_expires_drops_figures_and_no_job(make_redis, full):
    server: RedisServer = make_redis(maxmemory="3mb", **{"maxmemory-policy": "volatile-lru"})
    store: Any = open_backend(server.url(), clock=SystemClock()).inline()
    finish(store.setup())
    finish(store.enqueue_many([Job(id=f"{number}", task="t", payload=b"", created_at=1.0) for number in range(50)]))
    jobs = finish(store.claim(ClaimRequest(worker_id="w", limit=50, lease=60.0))).jobs
    now = store.clock.now()
    assert all(finish(store.record([transitions.succeeded(job, None, now) for job in jobs])).applied)
    assert [tally.succeeded for tally in finish(store.tallies(now - HOUR))] == [50]
    waiting = full(store)
    assert finish(store.tallies(now - HOUR)) == []
    counts = finish(store.counts_by_status())
    assert (counts["success"], counts["queued"]) == (50, waiting)
    finish(store.close())
    server.execute("CONFIG SET", "maxmemory", "0")
    assert_consistent(server.url())


# --- deleting, neighbours and looking for a text ---


def test_a_deleted_job_leaves_nothing_behind(watched):
    """Of whatever kind: with a result, with a history, with a key that another job holds by now."""
    watched.run(1, result=b"7")
    watched.run(2, key="mine")
    (failing,) = watched.send(3, max_attempts=2, queue="mail")
    for retry_at in (watched.clock.now(), None):
        (job,) = watched.claim(1)
        error = transitions.ExecutionError(error_type="E", message="m")
        watched.record(transitions.failed(job, error, retry_at, watched.clock.now()))
    (cancelled,) = watched.send(4)
    assert finish(watched.store.cancel(cancelled.id))
    (holder,) = watched.send(5, key="mine")
    ids = sorted(key.decode().removeprefix(f"{TAG}job:") for key in watched.client.keys(f"{TAG}job:*"))
    assert len(ids) == 5 and failing.id in ids
    for number, job_id in enumerate(ids[:4]):
        assert finish(watched.store.delete(job_id))
        assert not finish(watched.store.delete(job_id))
        assert assert_consistent(watched.url) == 4 - number
    assert not finish(watched.store.delete(holder.id)), "it waits"
    assert finish(watched.store.holder("mine")).id == holder.id
    left = {key.decode().removeprefix(TAG).partition(":")[0] for key in watched.client.keys(f"{TAG}*")}
    assert not left & {"executions", "results", "finished"}
    watched.run(1)


def test_neighbours_of_a_job_that_is_gone(watched):
    one, two, three = watched.send(1, 2, 3)
    finish(watched.store.cancel(two.id))
    assert finish(watched.store.delete(two.id))
    assert finish(watched.store.neighbours(two.id)) == (three.id, one.id)
    assert finish(watched.store.neighbours(three.id)) == (None, one.id)
    assert finish(watched.store.neighbours("")) == (one.id, None)


def test_a_script_looks_at_a_bounded_number_of_jobs(watched):
    watched.send(*range(2_500), payload=b"ordinary")
    watched.send(5_000, payload=b"RARE")
    watched.send(*range(6_000, 6_100), payload=b"ordinary")
    watched.link.ran.clear()
    assert len(finish(watched.store.list(text="rare")).jobs) == 1
    assert watched.link.ran == ["list"] * 3
    watched.link.ran.clear()
    page = finish(watched.store.list(text="rare", scan=100))
    assert page.jobs == [] and page.cursor is not None
    (found,) = finish(watched.store.list(text="rare", scan=1, cursor=page.cursor)).jobs
    assert found.id.startswith(f"{5_000:08x}")
    assert watched.link.ran == ["list"] * 2
    assert finish(watched.store.list(text="rare", scan=2_601)) == finish(watched.store.list(text="rare", limit=5))


def test_a_script_looks_at_a_bounded_number_of_bytes(watched):
    large = b"x" * 3_000_000
    for number in range(6):
        watched.send(number, payload=large + b"needle %d" % (number % 2))
    watched.link.ran.clear()
    found = finish(watched.store.list(text="NEEDLE 1")).jobs
    assert [int(job.id[:8]) for job in found] == [5, 3, 1]
    assert watched.link.ran == ["list"] * 3
    assert len(finish(watched.store.list(text="x", limit=4)).jobs) == 4
    watched.link.ran.clear()
    assert len(finish(watched.store.list()).jobs) == 6
    assert watched.link.ran == ["list"], "arguments are read for a text alone"


def test_a_text_among_running_jobs_goes_on_from_page_to_page(watched):
    watched.send(*range(40), payload=b"an order")
    assert len(watched.claim(40)) == 40
    found, cursor = [], None
    for _ in range(40):
        page = finish(watched.store.list(status=JobStatus.RUNNING, text="ORDER", scan=3, cursor=cursor))
        assert len(page.jobs) <= 3
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            break
    assert [int(job.id[:8], 16) for job in found] == [*range(39, -1, -1)]


def test_no_page_is_asked_for_nothing(watched):
    watched.send(1, 2)
    page = finish(watched.store.list(limit=0))
    assert (page.jobs, page.cursor) == ([], None)
    assert len(finish(watched.store.list(scan=0)).jobs) <= 1
    assert not inspect(watched.url)[0]
