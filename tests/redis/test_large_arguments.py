"""Many jobs with large arguments: no script hands out all of them at once, and nobody waits longer for that."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.redis.consistency import assert_consistent
from tests.redis.losing import LosingLink, losing
from tinyjobs.app.facade import TinyJobs
from tinyjobs.backends.redis.backend import RedisBackend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core import transitions
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Claimed, ClaimRequest, Job
from tinyjobs.core.status import JobStatus
from tinyjobs.testing import FrozenClock

pytestmark = pytest.mark.redis

LEASE = 60.0
#: What the payloads of one answer may have together, but for the last of them.
MOST = 4 * 2**20
LARGE = b"x" * 1_500_000
AT_ONCE = 3


class Bench:
    """A store in a world of its own time, and the scripts that its calls take."""

    def __init__(self, url: str) -> None:
        self.clock = FrozenClock()
        backend = open_backend(url, clock=self.clock)
        assert isinstance(backend, RedisBackend)
        self.store: Any
        self.link: LosingLink
        self.store, self.link = losing(backend)
        finish(self.store.setup())

    def send(self, *payloads: bytes, **fields: Any) -> list[str]:
        now = self.clock.now()
        fields = {"task": "t", "max_attempts": 3, "run_at": now, "created_at": now, **fields}
        jobs = [Job(id=f"{number:08}", payload=payload, **fields) for number, payload in enumerate(payloads)]
        for job in jobs:
            finish(self.store.enqueue(job))
        self.link.ran.clear()
        return [job.id for job in jobs]

    def claim(self, limit: int = 100, **how: Any) -> Claimed:
        claimed: Claimed = finish(self.store.claim(ClaimRequest(worker_id="w", limit=limit, lease=LEASE, **how)))
        return claimed

    def claim_all(self) -> list[Job]:
        jobs: list[Job] = []
        while claimed := self.claim().jobs:
            jobs += claimed
        self.link.ran.clear()
        return jobs


@pytest.fixture
def bench(redis_url: str) -> Iterator[Bench]:
    assert -(-MOST // len(LARGE)) == AT_ONCE
    made = Bench(redis_url)
    yield made
    assert_consistent(redis_url)
    finish(made.store.close())


@pytest.mark.parametrize("queues", [(), ("default",)])
def test_a_claim_takes_a_bounded_number_of_bytes_and_says_that_more_is_due(bench, queues):
    sent = bench.send(*[LARGE] * 7)
    found = []
    for count in (AT_ONCE, AT_ONCE, 1, 0):
        claimed = bench.claim(queues=queues)
        assert len(claimed.jobs) == count
        assert all(job.payload == LARGE for job in claimed.jobs)
        assert claimed.next_due == (bench.clock.now() if count == AT_ONCE else None)
        found += [job.id for job in claimed.jobs]
    assert found == sent
    assert bench.link.ran == ["record"] * 4


def test_one_job_is_taken_however_large_and_small_ones_are_taken_together(bench):
    sent = bench.send(b"x" * (2 * MOST), *[b"x" * 1_000] * 90, b"x" * MOST)
    assert [job.id for job in bench.claim().jobs] == sent[:1]
    claimed = bench.claim()
    assert ([job.id for job in claimed.jobs], claimed.next_due) == (sent[1:], None)


def test_a_claim_that_has_taken_what_it_was_asked_for_says_nothing_of_more(bench):
    bench.send(*[LARGE] * 4)
    assert bench.claim(AT_ONCE).next_due is None


def test_lost_jobs_are_taken_back_in_one_pass_and_told_in_pieces(bench):
    sent = bench.send(*[LARGE] * 7)
    assert len(bench.claim_all()) == 7
    bench.clock.advance(LEASE + 1)
    reaped = finish(bench.store.reap_expired())
    assert [job.id for job in reaped] == sent
    assert {(job.status, job.payload) for job in reaped} == {(JobStatus.QUEUED, LARGE)}
    assert bench.link.ran == ["expired", "record", "get", "get", "get"]


def test_results_count_as_well(bench):
    bench.send(*[b""] * 4)
    outcomes = [transitions.succeeded(job, LARGE, bench.clock.now()) for job in bench.claim_all()]
    assert all(finish(bench.store.record(outcomes)).applied)
    bench.link.ran.clear()
    assert [finish(bench.store.get(outcome.job_id)).result for outcome in outcomes] == [LARGE] * 4
    assert bench.link.ran == ["get"] * 4


def test_jobs_that_did_not_start_in_time_are_ended_in_pieces(bench):
    sent = bench.send(*[LARGE] * 7, expires_at=bench.clock.now() + 5)
    bench.clock.advance(6)
    assert [job.id for job in finish(bench.store.end_unstarted(2))] == sent[:2]
    ended = finish(bench.store.end_unstarted())
    assert [job.id for job in ended] == sent[2:]
    assert {(job.status, job.payload) for job in ended} == {(JobStatus.CANCELLED, LARGE)}
    assert bench.link.ran == ["end_unstarted"] * 3


@pytest.mark.parametrize("loss", ["request", "answer"])
def test_what_was_ended_before_the_server_went_away_is_told(bench, loss):
    sent = bench.send(*[LARGE] * 7, expires_at=bench.clock.now() + 5)
    bench.clock.advance(6)
    bench.link.losses = [("end_unstarted", None), ("end_unstarted", loss)]
    assert [job.id for job in finish(bench.store.end_unstarted())] == sent[:AT_ONCE]
    bench.link.losses = [("end_unstarted", "request")]
    with pytest.raises(StoreUnavailableError):
        finish(bench.store.end_unstarted())


def test_a_lost_claim_is_given_back_whole(bench):
    sent = bench.send(*[LARGE] * 5)
    bench.link.losses = [("record", "answer")]
    with pytest.raises(StoreUnavailableError):
        bench.claim()
    jobs = bench.claim_all()
    assert sorted(job.id for job in jobs) == sent
    assert {job.attempts for job in jobs} == {1}


def test_a_worker_claims_on_at_once(redis_url, make_app):
    """Far more slots than it is handed jobs: it looks again without a pause, and until nothing is left."""
    app: TinyJobs = make_app(redis_url)
    ran = []

    @app.task(name="measure")
    async def measure(text: str) -> None:
        ran.append(len(text))

    measure.enqueue_many([("x" * len(LARGE),) for _ in range(20)])
    assert app.run_worker(until_empty=True, async_concurrency=100).succeeded == 20
    assert ran == [len(LARGE)] * 20
