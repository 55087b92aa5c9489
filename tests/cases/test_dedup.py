"""A deduplication key is free after every end of its job's life, and held until then, its own retries included."""

import asyncio
import threading

import pytest
from django.test import TestCase

from tests.taskbackend.shop import tasks
from tinyjobs import Abandon, TinyJobs
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.models import Job
from tinyjobs.testing import drain

LEASE = 60.0


class Life:
    """One keyed job, and the ways in which it can end."""

    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.app = TinyJobs("memory://", clock=self.clock)
        self.go_on = threading.Event()
        self.app.task(name="good")(lambda: None)
        self.app.task(name="bad")(self.fail)
        self.app.task(name="bad_twice", max_attempts=2, retry_backoff="fixed", retry_base=10, retry_jitter=False)(
            self.fail
        )
        self.app.task(name="given_up", max_attempts=5)(self.give_up)
        self.app.task(name="urgent", expires=60)(lambda: None)
        self.app.task(name="late", timeout=0.01)(lambda: self.go_on.wait(20))
        self.app.task(name="late_on_the_loop", timeout=0.01)(self.sleep)

    def send(self, name: str):
        task = self.app.tasks.get(name)
        return task.with_options(key="k").enqueue() if task else self.app.send(name, key="k")

    def fail(self):
        raise ValueError("no")

    def give_up(self):
        raise Abandon("no use")

    async def sleep(self):
        await asyncio.sleep(20)

    def lose_the_worker(self) -> None:
        store = self.app.engine.store.inline()
        request = ClaimRequest(worker_id="vanished", limit=1, lease=LEASE)
        assert finish(store.claim(request)).jobs
        self.clock.advance(LEASE + 1)
        assert finish(store.reap_expired())

    def expire(self) -> None:
        self.clock.advance(60)
        assert self.app.drain() == 0

    def expire_unserved(self) -> None:
        self.clock.advance(60)
        assert finish(self.app.engine.store.inline().end_unstarted())


@pytest.fixture
def life():
    life = Life()
    yield life
    life.go_on.set()
    life.app.close()


ENDS = {
    "success": ("good", lambda life, job: life.app.drain()),
    "failure": ("bad", lambda life, job: life.app.drain()),
    "given up": ("given_up", lambda life, job: life.app.drain()),
    "timeout of a function": ("late", lambda life, job: life.app.drain()),
    "timeout of a coroutine": ("late_on_the_loop", lambda life, job: life.app.drain()),
    "worker lost": ("good", lambda life, job: life.lose_the_worker()),
    "expiry": ("urgent", lambda life, job: life.expire()),
    "expiry in a queue nobody serves": ("urgent", lambda life, job: life.expire_unserved()),
    "cancelled": ("good", lambda life, job: life.app.cancel(job)),
    "cancelled, of a task nobody knows": ("unheard.of", lambda life, job: life.app.cancel(job)),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_key_is_free_after(life, end):
    name, come_to_an_end = ENDS[end]
    job = life.send(name)
    assert life.send(name).existing
    come_to_an_end(life, job)
    assert life.app.get(job).status.is_final
    again = life.send(name)
    assert not again.existing
    assert again.id != job.id


def test_the_key_is_free_after_a_purge(life):
    job = life.send("good")
    life.app.drain()
    assert life.app.purge(older_than=0).deleted["success"] == 1
    assert life.app.get(job) is None
    assert not life.send("good").existing


def test_it_is_held_while_an_attempt_is_to_follow_and_does_not_keep_it_away(life):
    job = life.send("bad_twice")
    life.app.drain()
    assert life.send("bad_twice").id == job.id
    life.clock.advance(10)
    assert life.app.drain() == 1
    assert [entry.attempt for entry in life.app.executions(job)] == [1, 2]
    assert life.send("bad_twice").id != job.id


def test_it_is_held_while_nobody_knows_the_task(life):
    job = life.send("unheard.of")
    with pytest.raises(LookupError, match=r"unheard\.of"):
        life.app.drain()
    assert life.send("unheard.of").id == job.id


class DeletedJobs(TestCase):
    def test_a_deleted_job_leaves_its_key(self):
        keyed = tasks.add.using(key="k")
        first = keyed.enqueue(1)
        self.assertTrue(keyed.enqueue(1).existing)
        Job.objects.filter(pk=first.id).delete()
        self.assertFalse(keyed.enqueue(1).existing)
        self.assertEqual(drain(), 1)
