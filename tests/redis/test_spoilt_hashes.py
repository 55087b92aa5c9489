"""Jobs that somebody changed by hand: Redis keeps any bytes anywhere, and one bad job must not hold up the others."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.redis.consistency import inspect
from tests.redis.handled import Handled
from tinyjobs.core.errors import StoreError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job

pytestmark = pytest.mark.redis

SPOILT = [
    ("priority", "high"),
    ("priority", "5.0"),
    ("priority", "0x10"),
    ("max_attempts", "three"),
    ("max_attempts", None),
    ("attempts", "1.5"),
    ("claims", ""),
    ("run_at", "soon"),
    ("run_at", "nan"),
    ("run_at", "0x1p4"),
    ("created_at", b"\xff"),
    ("created_at", None),
    ("expires_at", "never"),
    ("scheduled_for", "-"),
    ("task", None),
]


class Spoiler(Handled):
    """A store, and what may be done to its jobs from outside."""

    def send(self, count: int = 3) -> list[Job]:
        jobs = [self.job(number, key=f"key {number}") for number in range(count)]
        finish(self.store.enqueue_many(jobs))
        return jobs

    def change(self, job: Job, field: str, value: Any) -> None:
        key = f"{{tinyjobs}}:job:{job.id}"
        if value is None:
            self.client.hdel(key, field)
        else:
            self.client.hset(key, field, value)

    def status_of(self, job: Job) -> str:
        return (self.client.hget(f"{{tinyjobs}}:job:{job.id}", "status") or b"").decode()

    def wrong(self) -> list[str]:
        return [line for line in inspect(self.url)[0] if "is not whole" not in line]


@pytest.fixture
def spoiler(redis_url: str) -> Iterator[Spoiler]:
    made = Spoiler(redis_url)
    yield made
    made.close()


@pytest.mark.parametrize(("field", "value"), SPOILT)
def test_a_spoilt_job_fails_and_the_others_run(spoiler, field, value):
    first, spoilt, last = spoiler.send()
    spoiler.change(spoilt, field, value)
    assert [job.id for job in spoiler.claim(3)] == [first.id, last.id]
    assert spoiler.status_of(spoilt) == "failed"
    assert b"Was it changed by hand?" in spoiler.client.hget(f"{{tinyjobs}}:job:{spoilt.id}", "last_error")
    again = Job(id="f" * 8 + spoilt.id[8:], task="t", payload=b"[]", key=spoilt.key, delay=0.0)
    assert not finish(spoiler.store.enqueue(again)).existing, "its key is free"


def test_a_claim_of_one_goes_on_behind_the_spoilt_job(spoiler):
    spoilt, sound, _ = spoiler.send()
    spoiler.change(spoilt, "max_attempts", "three")
    assert [job.id for job in spoiler.claim(1)] == [sound.id]


@pytest.mark.parametrize(("field", "value"), [("max_attempts", "three"), ("claims", "x"), ("created_at", None)])
def test_the_reaper_takes_back_the_others(spoiler, field, value):
    spoilt, *others = spoiler.send()
    assert len(spoiler.claim(3)) == 3
    spoiler.change(spoilt, field, value)
    spoiler.clock.advance(31)
    assert {job.id for job in finish(spoiler.store.reap_expired(10))} == {job.id for job in others}
    assert finish(spoiler.store.reap_expired(10)) == []
    assert spoiler.status_of(spoilt) == "failed"
    counts = finish(spoiler.store.counts_by_status())
    assert (counts["queued"], counts["running"], counts["failed"]) == (2, 0, 1)
    assert not spoiler.wrong()


def test_the_reaper_lets_go_of_jobs_that_do_not_run_or_are_gone(spoiler):
    queued, gone, sound = spoiler.send()
    assert len(spoiler.claim(3)) == 3
    spoiler.change(queued, "status", "weird")
    spoiler.client.delete(f"{{tinyjobs}}:job:{gone.id}")
    spoiler.clock.advance(31)
    taken = [job.id for _ in range(3) for job in finish(spoiler.store.reap_expired(1))]
    assert taken == [sound.id]
    assert spoiler.client.zcard("{tinyjobs}:leases") == 0


@pytest.mark.parametrize("field", ["metadata", "last_error", "task"])
def test_bytes_that_are_no_text_hold_up_nobody(spoiler, field):
    first, spoilt, last = spoiler.send()
    spoiler.change(spoilt, field, b"a\xff")
    claimed = spoiler.claim(3)
    assert [job.id for job in claimed] == [first.id, spoilt.id, last.id]
    assert getattr(claimed[1], field) == "a\ufffd"
    assert getattr(finish(spoiler.store.get(spoilt.id)), field) == "a\ufffd"


def test_a_spoilt_job_is_named_when_it_is_read(spoiler):
    spoilt, *_ = spoiler.send()
    spoiler.change(spoilt, "status", "weird")
    with pytest.raises(StoreError, match=rf"{spoilt.id}.*changed by hand"):
        finish(spoiler.store.get(spoilt.id))
