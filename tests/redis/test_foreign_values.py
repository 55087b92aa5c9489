"""Keys of the store's under which somebody has put a value of another kind: what stands around them goes on.

Where it is a key of one job, that job is as good as gone. Where every call needs it, calls say what is wrong.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.redis.handled import LEASE, Handled
from tests.redis.losing import losing
from tests.redis.test_memory import ERROR
from tinyjobs.core import transitions
from tinyjobs.core.errors import StoreError, StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held, Job

pytestmark = pytest.mark.redis


class Store(Handled):
    """A store, and a client that may put anything anywhere."""

    def send(self, count: int = 3, **fields: Any) -> list[Job]:
        return list(finish(self.store.enqueue_many([self.job(number, **fields) for number in range(count)])))

    def spoil(self, *names: str) -> None:
        """Put a list there: not what any key of the store's holds."""
        for name in names:
            self.client.delete(f"{{tinyjobs}}:{name}")
            self.client.rpush(f"{{tinyjobs}}:{name}", "somebody else's")

    def kind(self, name: str) -> bytes:
        return bytes(self.client.type(f"{{tinyjobs}}:{name}"))


@pytest.fixture
def made(redis_url: str) -> Iterator[Store]:
    made = Store(redis_url)
    yield made
    made.close()


@pytest.mark.parametrize("limit", [1, 3])
def test_a_claim_and_the_figures_pass_over_it(made, limit):
    foreign, *others = made.send()
    made.spoil(f"job:{foreign.id}")
    assert finish(made.store.stats()).by_status["queued"] == 3
    assert [job.id for _ in range(3) for job in made.claim(limit)] == [job.id for job in others]
    assert [job.id for job in finish(made.store.list()).jobs] == [job.id for job in reversed(others)]
    assert finish(made.store.get(foreign.id)) is None
    assert finish(made.store.executions(foreign.id)) == []
    assert not finish(made.store.cancel(foreign.id))
    assert not finish(made.store.requeue(foreign.id))
    assert not finish(made.store.delete(foreign.id))
    assert finish(made.store.claim_job(foreign.id, worker_id="w", lease=LEASE)) is None


def test_it_takes_no_lease_and_no_outcome_of_others_along(made):
    made.send()
    foreign, *others = jobs = made.claim()
    made.spoil(f"job:{foreign.id}")
    held = [Held(job.id, job.claims) for job in jobs]
    assert finish(made.store.heartbeat(held, LEASE)) == held[1:]
    outcomes = [transitions.succeeded(job, None, made.clock.now()) for job in jobs[:2]]
    assert finish(made.store.record(outcomes)).applied == [False, True]
    made.clock.advance(LEASE + 1)
    assert [job.id for job in finish(made.store.reap_expired())] == [others[1].id]
    assert finish(made.store.counts_by_status())["running"] == 0


@pytest.mark.parametrize("how", ["failed", "retried", "cancelled"])
def test_a_history_of_another_kind_gives_way(made, how):
    jobs = made.send()
    claimed = made.claim()
    made.spoil(f"executions:{jobs[1].id}")
    now = made.clock.now()
    if how == "cancelled":
        assert finish(made.store.cancel(jobs[1].id))
    else:
        outcomes = [transitions.failed(job, ERROR, now + 60 if how == "retried" else None, now) for job in claimed]
        assert finish(made.store.record(outcomes)).applied == [True] * 3
    assert len(finish(made.store.executions(jobs[1].id))) == 1


def test_a_key_whose_holder_cannot_be_read_is_nobodys(made):
    made.spoil("dedup:k")
    (job,) = made.send(1, key="k")
    assert not job.existing
    assert finish(made.store.holder("k")).id == job.id
    made.spoil("dedup:k")
    (claimed,) = made.claim()
    assert finish(made.store.record([transitions.succeeded(claimed, None, made.clock.now())])).applied == [True]
    assert finish(made.store.counts_by_status())["success"] == 1
    assert finish(made.store.holder("k")) is None


def test_figures_of_another_kind_are_let_alone(made):
    made.send()
    first, *_ = made.claim(1)
    minute = int(made.clock.now() // 60 * 60)
    made.spoil(f"tally:{minute}")
    request = ClaimRequest(worker_id="w", limit=1, lease=LEASE)
    recorded = finish(made.store.record([transitions.succeeded(first, None, made.clock.now())], request))
    assert recorded.applied == [True] and len(recorded.claimed.jobs) == 1
    assert made.kind(f"tally:{minute}") == b"list"


@pytest.mark.parametrize("value", [None, b"", b"[", b"{}", b"7", b"null", b'["t", 1, []]'])
def test_a_note_of_a_claim_that_cannot_be_read_leaves_its_jobs_to_their_leases(made, value):
    made.send(2)
    twin, link = losing(made.store)
    link.losses = [("record", "answer")]
    with pytest.raises(StoreUnavailableError):
        finish(twin.claim(ClaimRequest(worker_id="w", limit=1, lease=LEASE)))
    if value is None:
        made.spoil("claimed:w")
    else:
        made.client.set("{tinyjobs}:claimed:w", value)
    assert len(finish(twin.claim(ClaimRequest(worker_id="w", limit=1, lease=LEASE))).jobs) == 1
    made.clock.advance(LEASE + 1)
    assert len(finish(twin.reap_expired())) == 2


def test_a_queue_of_another_kind_holds_up_no_other(made):
    made.send(2, queue="a")
    made.client.zadd("{tinyjobs}:ready_queues", {"b": 0, "0": 0})
    made.spoil("ready:b", "ready:0")
    assert [job.queue for job in made.claim()] == ["a", "a"]
    with pytest.raises(StoreError, match="another program uses the same prefix"):
        finish(made.store.enqueue(Job(id="f" * 8, task="t", queue="b", payload=b"[]", delay=0.0)))


def test_what_every_call_needs_is_named_by_its_error(made):
    made.send(1)
    made.spoil("leases")
    with pytest.raises(StoreError, match="another program uses the same prefix"):
        made.claim()


@pytest.mark.parametrize(
    ("limit", "queues", "scripts"), [(1, 1, range(3, 9)), (8, 1, range(2, 5)), (1, 100, range(150, 250))]
)
def test_jobs_that_are_gone_are_passed_over_by_several_scripts(made, limit, queues, scripts):
    """As after somebody deleted them, or a server without memory did. The server does nothing else while one runs."""
    gone = 4_000
    now = made.clock.now()
    jobs = [
        Job(id=f"{number:08x}", task="t", queue=f"q{number % queues}", payload=b"[]", run_at=now, created_at=now)
        for number in range(gone + 1)
    ]
    finish(made.store.enqueue_many(jobs))
    made.client.delete(*(f"{{tinyjobs}}:job:{job.id}" for job in jobs[:-1]))
    twin, link = losing(made.store)
    claimed = finish(twin.claim(ClaimRequest(worker_id="w", limit=limit, lease=LEASE))).jobs
    assert [job.id for job in claimed] == [jobs[-1].id]
    assert len(link.ran) in scripts and set(link.ran) == {"record"}
    assert finish(twin.claim(ClaimRequest(worker_id="w", limit=limit, lease=LEASE))).jobs == []


def test_a_wake_up_that_cannot_be_given_is_no_failure_of_the_job_that_is_kept(made):
    made.spoil("asleep")
    assert len(made.send(2)) == 2
    finish(made.store.enqueue(Job(id="f" * 8, task="t", payload=b"[]", delay=0.0)))
    assert made.claim()
