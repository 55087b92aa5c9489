"""Figures: counts by status and the store's statistics, which have to agree with the jobs they count."""

from tinyjobs.core.job import QueueStats
from tinyjobs.core.status import JobStatus
from tinyjobs.testing.contract.case import ContractCase, needs


class Figures(ContractCase):
    """`counts_by_status` and `stats`."""

    async def test_counts_of_an_empty_store(self) -> None:
        """Nothing, whether a status is left out or counted as 0."""
        self.assertEqual(set((await self.store.counts_by_status()).values()) | {0}, {0})
        stats = await self.store.stats()
        self.assertEqual((stats.now, list(stats.queues), stats.next_due), (self.clock.now(), [], None))
        self.assertEqual((stats.expired_leases, dict(stats.queued_by_task)), (0, {}))

    async def test_counts_by_status(self) -> None:
        """Every job counts once, where it stands now."""
        await self.store.enqueue_many([self.job() for _ in range(10)])
        jobs = await self.take(7)
        for job in jobs[:3]:
            await self.complete(job)
        await self.fail_job(jobs[3])
        await self.fail_job(jobs[4], retry_at=self.clock.now())
        await self.store.cancel(jobs[5].id)
        expected = {"success": 3, "failed": 1, "cancelled": 1, "running": 1, "queued": 4}
        counts = await self.store.counts_by_status()
        self.assertEqual({status: count for status, count in counts.items() if count}, expected)
        self.assertLessEqual(set(counts), {status.value for status in JobStatus})
        by_status = (await self.store.stats()).by_status
        self.assertEqual({status: count for status, count in by_status.items() if count}, expected)

    @needs("delayed")
    async def test_the_figures_of_each_queue(self) -> None:
        """Ready, delayed and running jobs of each queue that has any, and since when its oldest due job waits."""
        start = self.clock.now()
        await self.put(queue="mail")
        self.clock.advance(10)
        await self.store.enqueue_many([self.job(queue="mail") for _ in range(3)])
        await self.put(queue="mail", run_at=start + 500)
        await self.put(queue="reports", run_at=start + 300)
        await self.put(queue="reports", run_at=start + 200)
        done = await self.one(self.take(queues=("mail",)))
        await self.complete(done)
        await self.one(self.take(queues=("mail",)))
        stats = await self.store.stats()
        self.assertEqual(
            list(stats.queues),
            [
                QueueStats(name="mail", ready=2, delayed=1, running=1, oldest_due=start + 10),
                QueueStats(name="reports", delayed=2),
            ],
        )
        self.assertEqual(stats.next_due, start + 200)

    @needs("delayed")
    async def test_a_job_that_came_due_counts_as_ready(self) -> None:
        """Whether or not a worker has let it in, it waits since its time."""
        due_at = self.clock.now() + 10
        await self.put(run_at=due_at)
        await self.put(run_at=due_at + 100)
        self.clock.advance(30)
        (queue,) = (await self.store.stats()).queues
        self.assertEqual((queue.ready, queue.delayed, queue.oldest_due), (1, 1, due_at))

    @needs("delayed")
    async def test_queued_jobs_by_task(self) -> None:
        """Ready and delayed ones count; running and ended ones do not."""
        for task in ("shop.tasks.a", "shop.tasks.a", "shop.tasks.b"):
            await self.put(task=task)
        await self.put(task="shop.tasks.b", run_at=self.clock.now() + 60)
        await self.put(task="shop.tasks.c", priority=5)
        await self.complete(await self.one(self.take()))
        await self.put(task="shop.tasks.d", priority=5)
        await self.one(self.take())
        self.assertEqual(dict((await self.store.stats()).queued_by_task), {"shop.tasks.a": 2, "shop.tasks.b": 2})

    async def test_leases_that_ran_out(self) -> None:
        """Counted until they are reaped."""
        await self.running()
        await self.put()
        await self.one(self.take(lease=600))
        self.assertEqual((await self.store.stats()).expired_leases, 0)
        self.clock.advance(61)
        self.assertEqual((await self.store.stats()).expired_leases, 1)
        await self.store.reap_expired()
        self.assertEqual((await self.store.stats()).expired_leases, 0)
