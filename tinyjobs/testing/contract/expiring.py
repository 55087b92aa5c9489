"""Expiry: a job that has not started by then never starts, whoever finds that out; one that has started goes on."""

from dataclasses import replace

from tinyjobs.backends.base import BaseBackend
from tinyjobs.core.job import Job
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import EXPIRED, expired, has_expired
from tinyjobs.testing.contract.case import ContractCase, needs


class Expiring(ContractCase):
    """What is kept, what a claim tells, and, for stores that look by themselves, what they end."""

    async def test_an_expiry_is_kept(self) -> None:
        """With the job, from the enqueue on, as is the instant that a schedule's job stands for."""
        values = {"expires_at": self.clock.now() + 90.25, "scheduled_for": self.clock.now() - 0.125}
        one = await self.put(**values)
        many = await self.store.enqueue_many(
            [self.job(**values), self.job(**values), self.job(task="shop.tasks.sell", priority=1, **values), self.job()]
        )
        for job in (one, *many[:3]):
            found = await self.read(job)
            self.assertEqual((found.expires_at, found.scheduled_for), (values["expires_at"], values["scheduled_for"]))
        self.assertEqual((await self.read(many[3])).expires_at, None)
        for job in await self.take(3):
            self.assertEqual((job.expires_at, has_expired(job)), (values["expires_at"], False))

    async def test_a_claim_after_the_expiry(self) -> None:
        """It tells so, to the instant, and the job can be ended without a trace of a run."""
        for late, is_late in ((-0.5, False), (0.0, True), (30.0, True)):
            job = await self.put(expires_at=self.clock.now() + 60.0)
            self.clock.advance(60.0 + late)
            taken = await self.one(self.take())
            self.assertEqual(has_expired(taken), is_late)
            await self.record(expired(taken, self.clock.now()))
            found = await self.assert_status(job, JobStatus.CANCELLED)
            self.assertEqual((found.last_error, found.attempts, found.started_at), (EXPIRED, 0, None))
            self.assertEqual((found.finished_at, found.lease_expires_at), (self.clock.now(), None))
            await self.assert_attempts(job)

    @needs("dedup")
    async def test_an_expired_job_holds_no_key(self) -> None:
        """The next job of that key is taken at once."""
        await self.put(expires_at=self.clock.now() + 1.0, key="receipt:1")
        self.assertTrue((await self.put(key="receipt:1")).existing)
        self.clock.advance(2.0)
        taken = await self.one(self.take())
        self.assertTrue(has_expired(taken))
        await self.record(expired(taken, self.clock.now()))
        self.assertFalse((await self.put(key="receipt:1")).existing)

    async def test_a_job_that_was_handed_back(self) -> None:
        """Has not started, so it may still expire, however often it was handed back."""
        job = await self.put(expires_at=self.clock.now() + 60.0)
        for _ in range(3):
            await self.hand_back(await self.one(self.take()))
        self.clock.advance(60.0)
        self.assertTrue(has_expired(await self.one(self.take())))
        self.assertEqual((await self.read(job)).hand_backs, 3)

    async def test_a_job_that_has_started(self) -> None:
        """Expires no more: not while it is retried, nor after its run was cut short, nor after its worker vanished."""
        jobs = [await self.running(expires_at=self.clock.now() + 60.0) for _ in range(3)]
        await self.fail_job(jobs[0], self.clock.now() + 10.0)
        await self.release(jobs[1])
        self.clock.advance(100.0)
        self.assertEqual([job.id for job in await self.store.reap_expired()], [jobs[2].id])
        taken = await self.take(3)
        self.assertEqual({job.id: has_expired(job) for job in taken}, {job.id: False for job in jobs})
        await self.hand_back(taken[0])
        self.assertFalse(has_expired(await self.one(self.take())), "a hand-back later does not make it new")

    async def test_the_worker_that_came_too_late_vanished(self) -> None:
        """Nobody ran the job, and whoever takes it back ends it."""
        job = await self.put(expires_at=self.clock.now() + 60.0)
        self.clock.advance(61.0)
        await self.one(self.take())
        self.clock.advance(61.0)
        reaped = await self.one(self.store.reap_expired())
        self.assertEqual((reaped.id, reaped.status, reaped.last_error), (job.id, JobStatus.CANCELLED, EXPIRED))
        await self.assert_attempts(job)

    async def test_retrying_an_expired_job(self) -> None:
        """Somebody wants it run after all, so its expiry is over. One that is still to come is kept."""
        gone, kept = (
            await self.put(expires_at=self.clock.now() + 60.0),
            await self.put(expires_at=self.clock.now() + 99),
        )
        await self.store.cancel(gone.id)
        await self.store.cancel(kept.id)
        self.clock.advance(61.0)
        for job, expiry in ((gone, None), (kept, kept.expires_at)):
            self.assertTrue(await self.store.requeue(job.id))
            self.assertEqual((await self.read(job)).expires_at, expiry)
        self.assertEqual([has_expired(job) for job in await self.take(2)], [False, False])

    # --- what the store ends by itself ----------------------------------------------------------------------------

    def _looks_by_itself(self) -> None:
        if type(self._made).end_unstarted is BaseBackend.end_unstarted:
            self.skipTest(f"{type(self._made).__name__} leaves expired jobs to the claims")

    async def test_what_has_not_started_ends(self) -> None:
        """Due or delayed, of whatever queue; what runs, has run or has no expiry is left alone."""
        self._looks_by_itself()
        soon, later = self.clock.now() + 10.0, self.clock.now() + 500.0
        kept = [await self.running(expires_at=soon), await self._put_retried(expires_at=soon)]
        back = await self.running(expires_at=soon)
        await self.hand_back(back)
        kept += [await self.put(expires_at=later), await self.put()]
        ended = [back, await self.put(expires_at=soon, queue="nobody"), await self.put(expires_at=soon, run_at=later)]
        cancelled = await self.put(expires_at=soon)
        await self.store.cancel(cancelled.id)
        self.assertEqual(await self.store.end_unstarted(), [])
        self.clock.advance(20.0)
        before = {job.id: await self.read(job) for job in [*kept, cancelled]}
        found = await self.store.end_unstarted()
        self.assertEqual({job.id for job in found}, {job.id for job in ended})
        for job in found:
            self.assertEqual((job.status, job.last_error, job.started_at), (JobStatus.CANCELLED, EXPIRED, None))
            self.assertEqual(job, await self.read(job))
            await self.assert_attempts(job)
        self.assertEqual({job_id: await self.read(job_id) for job_id in before}, before)
        self.assertEqual(await self.store.end_unstarted(), [])
        counts = await self.store.counts_by_status()
        self.assertEqual((counts["cancelled"], counts["queued"]), (4, 3))

    async def test_the_longest_expired_end_first(self) -> None:
        """A bounded number at once."""
        self._looks_by_itself()
        jobs = [await self.put(expires_at=self.clock.now() + 10.0 - number) for number in range(5)]
        self.clock.advance(20.0)
        first = await self.store.end_unstarted(2)
        self.assertEqual({job.id for job in first}, {job.id for job in jobs[3:]})
        self.assertEqual(len(await self.store.end_unstarted()), 3)

    @needs("dedup")
    async def test_what_ends_unstarted_holds_no_key(self) -> None:
        """Also where no worker serves its queue."""
        self._looks_by_itself()
        await self.put(expires_at=self.clock.now() + 1.0, key="receipt:1", queue="nobody")
        self.clock.advance(2.0)
        await self.one(self.store.end_unstarted())
        self.assertFalse((await self.put(key="receipt:1")).existing)

    @needs("dedup")
    async def test_an_expired_holder_of_a_key_gives_way(self) -> None:
        """To the next enqueue, though nobody has ended it yet. One that has started or has no expiry does not."""
        self._looks_by_itself()
        for values, gives_way in (
            ({}, True),
            ({"run_at": self.clock.now() + 500.0}, True),
            ({"expires_at": None}, False),
        ):
            for many in (False, True):
                holder = await self.put(**{"key": "receipt:1", "expires_at": self.clock.now() + 10.0, **values})
                self.assertTrue((await self.put(key="receipt:1")).existing)
                self.clock.advance(10.0)
                found = await self.store.holder("receipt:1")
                self.assertEqual(found is None, gives_way)
                job = self.job(key="receipt:1")
                (kept,) = await self.store.enqueue_many([job]) if many else [await self.store.enqueue(job)]
                self.assertEqual((kept.existing, kept.id == holder.id), (not gives_way, not gives_way))
                ended = await self.read(holder)
                self.assertEqual(ended.last_error, EXPIRED if gives_way else None)
                for left in (holder, job):
                    await self.store.cancel(left.id)
        started = await self.running(key="receipt:2", expires_at=self.clock.now() + 10.0)
        await self.fail_job(started, self.clock.now() + 100.0)
        self.clock.advance(10.0)
        self.assertTrue((await self.put(key="receipt:2")).existing)

    async def test_racing_to_end_what_has_not_started(self) -> None:
        """Each job ends once, and is told of once."""
        self._looks_by_itself()
        clients = await self.clients()
        for _ in range(self.rounds):
            jobs = [await self.put(expires_at=self.clock.now() + 1.0) for _ in range(12)]
            self.clock.advance(2.0)
            answers = await self.race(*(client.end_unstarted(5) for client in clients))
            told = [job.id for answer in answers for job in answer]
            told += [job.id for job in await self.store.end_unstarted()]
            self.assertEqual(sorted(told), sorted(job.id for job in jobs))

    async def test_a_claim_racing_the_end(self) -> None:
        """A job is either taken or ended, never both."""
        self._looks_by_itself()
        first, second = await self.clients(2)
        for _ in range(self.rounds):
            jobs = [await self.put(expires_at=self.clock.now() + 1.0) for _ in range(8)]
            self.clock.advance(2.0)
            taken, ended = await self.race(self.take(8, by=first), second.end_unstarted())
            self.assertEqual(len({job.id for job in [*taken, *ended]}), len(taken) + len(ended))
            ended += await self.store.end_unstarted()
            applied = await self.record(*(expired(job, self.clock.now()) for job in taken))
            self.assertEqual(applied, [True] * len(taken))
            self.assertEqual({job.id for job in [*taken, *ended]}, {job.id for job in jobs})

    async def _put_retried(self, **values: object) -> Job:
        job = await self.running(**values)
        await self.fail_job(job, self.clock.now() + 300.0)
        found = await self.read(job)
        self.assertEqual([entry.status for entry in await self.store.executions(job.id)], [ExecutionStatus.FAILED])
        return replace(found)
