"""Retention: what has ended long ago goes, a bounded number at once, and nothing else does."""

from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.job import Job
from tinyjobs.core.status import JobStatus
from tinyjobs.testing.contract.case import ContractCase, needs

DAY = 86_400.0


class Retention(ContractCase):
    """For stores that declare `retention`."""

    async def _put_ended(self, status: JobStatus, count: int = 1) -> list[Job]:
        """Jobs that end now, each with an execution where it ran."""
        jobs = []
        for _ in range(count):
            if status is JobStatus.CANCELLED:
                job = await self.put()
                await self.store.cancel(job.id)
            else:
                job = await self.running()
                await (self.complete(job) if status is JobStatus.SUCCESS else self.fail_job(job))
            jobs.append(job)
            self.clock.advance(1.0)
        return jobs

    async def _are_there(self, *jobs: Job) -> list[bool]:
        return [await self.store.get(job.id) is not None for job in jobs]

    @needs("retention")
    async def test_a_purge_takes_what_is_old_enough(self) -> None:
        """Of the status that was asked for, to the instant, with the history."""
        for status in (JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELLED):
            (old,) = await self._put_ended(status)
            others = [await self._put_ended(other) for other in JobStatus if other.is_final and other is not status]
            ended_at = (await self.read(old)).finished_at
            assert ended_at is not None
            self.clock.advance(DAY - (self.clock.now() - ended_at) - 0.5)
            self.assertEqual(await self.store.purge(status, DAY), 0)
            self.clock.advance(0.5)
            self.assertEqual(await self.store.purge(status, DAY), 1)
            self.assertEqual(await self._are_there(old), [False])
            self.assertEqual(await self.store.executions(old.id), [])
            # Its history is gone with it: another job of the same id has none.
            again = await self.put(id=old.id)
            self.assertEqual(await self.store.executions(again.id), [])
            await self.store.cancel(again.id)
            for (other,) in others:
                self.assertEqual(await self._are_there(other), [True])
            self.clock.advance(DAY)
            for kind in (JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELLED):
                await self.store.purge(kind, 0.0)

    @needs("retention")
    async def test_a_purge_leaves_what_has_not_ended(self) -> None:
        """However old it is, and whatever status is named."""
        jobs = [await self.running(), await self.put(), await self.put(run_at=self.clock.now() + 5 * DAY)]
        retried = await self.running(priority=1)
        await self.fail_job(retried, self.clock.now() + 4 * DAY)
        self.clock.advance(2 * DAY)
        for status in JobStatus:
            self.assertEqual(await self.store.purge(status, 0.0), 0)
            self.assertEqual(await self.store.purgeable(status, 0.0), 0)
        self.assertEqual(await self._are_there(*jobs, retried), [True] * 4)
        self.assertEqual(len(await self.store.executions(retried.id)), 1)

    @needs("retention")
    async def test_the_oldest_go_first(self) -> None:
        """As many at once as were asked for; the count beforehand is the count of all batches."""
        jobs = await self._put_ended(JobStatus.SUCCESS, 5)
        self.clock.advance(DAY)
        self.assertEqual(await self.store.purgeable(JobStatus.SUCCESS, DAY), 5)
        self.assertEqual(await self.store.purge(JobStatus.SUCCESS, DAY, limit=2), 2)
        self.assertEqual(await self._are_there(*jobs), [False, False, True, True, True])
        self.assertEqual(await self.store.purgeable(JobStatus.SUCCESS, DAY), 3)
        self.assertEqual(await self.store.purge(JobStatus.SUCCESS, DAY, limit=9), 3)
        self.assertEqual(await self.store.purge(JobStatus.SUCCESS, DAY), 0)

    @needs("retention")
    async def test_racing_purges(self) -> None:
        """Each job is deleted, and counted, once."""
        clients = await self.clients()
        for _ in range(self.rounds):
            await self._put_ended(JobStatus.SUCCESS, 6)
            answers = await self.race(*(client.purge(JobStatus.SUCCESS, 0.0, limit=4) for client in clients))
            left = await self.store.purge(JobStatus.SUCCESS, 0.0)
            self.assertEqual(sum(answers) + left, 6)
            self.assertEqual((await self.store.counts_by_status()).get("success", 0), 0)

    @needs("retention")
    async def test_a_retry_racing_a_purge(self) -> None:
        """The job is either gone or queued, never half of each."""
        first, second = await self.clients(2)
        for _ in range(self.rounds):
            (job,) = await self._put_ended(JobStatus.FAILED)
            requeued, purged = await self.race(first.requeue(job.id), second.purge(JobStatus.FAILED, 0.0))
            self.assertEqual((requeued, purged), (True, 0) if requeued else (False, 1))
            self.assertEqual(await self._are_there(job), [requeued])
            self.assertEqual(len(await self.store.executions(job.id)), 1 if requeued else 0)
            await self.store.cancel(job.id)
            await self.store.purge(JobStatus.CANCELLED, 0.0)

    @needs("retention")
    async def test_one_of_many_sweeps(self) -> None:
        """One caller an interval is told to, of all who ask at once."""
        clients = await self.clients()
        for step in (0.0, 3_600.0, 90_000.0):
            self.clock.advance(step)
            self.assertEqual(sum(await self.race(*(client.claim_sweep(3_600.0) for client in clients))), 1)
            self.assertFalse(await self.store.claim_sweep(3_600.0))
        self.clock.advance(3_599.0)
        self.assertFalse(await self.store.claim_sweep(3_600.0))

    @needs("retention")
    async def test_a_sweep_after_the_clock_was_put_back(self) -> None:
        """A marker that lies ahead of the time does not hold up the sweeps until then."""
        if not self.independent_clients:
            self.skipTest("this store has one client, and its clock is the one it was made with")
        self.assertTrue(await self.store.claim_sweep(3_600.0))
        for back, may_sweep in ((1_800.0, False), (200_000.0, True)):
            earlier = FrozenClock(self.clock.now() - back)
            client = await self._ready(await self.another_client(self._made, earlier))
            self.assertEqual(await client.claim_sweep(3_600.0), may_sweep)


class ResultLives(ContractCase):
    """For stores that declare `result_ttl`."""

    async def _put_done(self, task: str, count: int = 1) -> list[Job]:
        jobs = []
        for _ in range(count):
            job = await self.running(task=task)
            await self.complete(job, b"\x00a result")
            jobs.append(job)
            self.clock.advance(1.0)
        return jobs

    async def _have_results(self, *jobs: Job) -> list[bool]:
        return [(await self.read(job)).result is not None for job in jobs]

    @needs("result_ttl")
    async def test_a_result_is_dropped(self) -> None:
        """Of that task, once it is old enough; the job and its history stay."""
        (old,), (other,) = await self._put_done("shop.tasks.pack"), await self._put_done("shop.tasks.sell")
        self.clock.advance(100.0)
        (new,) = await self._put_done("shop.tasks.pack")
        before = await self.read(old)
        dropped, _ = await self.store.drop_results("shop.tasks.pack", 50.0)
        self.assertEqual((dropped, await self._have_results(old, other, new)), (1, [False, True, True]))
        after = await self.read(old)
        self.assertEqual((after.status, after.finished_at), (JobStatus.SUCCESS, before.finished_at))
        self.assertEqual(len(await self.store.executions(old.id)), 1)

    @needs("result_ttl")
    async def test_batches_of_results(self) -> None:
        """The oldest first; where one ended the next begins, and the last one tells up to when there are none left."""
        jobs = await self._put_done("shop.tasks.pack", 5)
        self.clock.advance(100.0)
        dropped, reached = await self.store.drop_results("shop.tasks.pack", 50.0, limit=2)
        self.assertEqual((dropped, await self._have_results(*jobs)), (2, [False, False, True, True, True]))
        self.assertEqual(reached, (await self.read(jobs[1])).finished_at)
        dropped, reached = await self.store.drop_results("shop.tasks.pack", 50.0, since=reached)
        self.assertEqual((dropped, reached), (3, self.clock.now() - 50.0))
        self.assertEqual(await self.store.drop_results("shop.tasks.pack", 50.0, since=reached), (0, reached))

    @needs("result_ttl")
    async def test_what_ended_before_is_not_looked_at(self) -> None:
        """That is what makes every pass but the first cheap."""
        (early,) = await self._put_done("shop.tasks.pack")
        since = self.clock.now()
        (late,) = await self._put_done("shop.tasks.pack")
        self.clock.advance(100.0)
        self.assertEqual((await self.store.drop_results("shop.tasks.pack", 50.0, since=since))[0], 1)
        self.assertEqual(await self._have_results(early, late), [True, False])

    @needs("result_ttl")
    async def test_racing_to_drop_results(self) -> None:
        """Every worker that knows the task does it, and none is in another's way."""
        clients = await self.clients()
        for _ in range(self.rounds):
            jobs = await self._put_done("shop.tasks.pack", 6)
            await self.race(*(client.drop_results("shop.tasks.pack", 0.0) for client in clients))
            self.assertEqual(await self._have_results(*jobs), [False] * 6)
