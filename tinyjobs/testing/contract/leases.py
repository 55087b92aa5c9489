"""Leases: a job belongs to its worker for as long as it says so, and comes back when it falls silent."""

from itertools import chain

from tinyjobs.core.job import Held, Job
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import WORKER_LOST
from tinyjobs.testing.contract.case import ContractCase, needs


class Leases(ContractCase):
    """Heartbeats, the reaper, and what happens when they meet an outcome."""

    async def test_a_lost_job_is_queued_again(self) -> None:
        """With attempts left the job can be claimed at once; the attempt counts and stays in the history as lost."""
        job = await self.running(max_attempts=2)
        started = self.clock.now()
        self.clock.advance(61)
        reaped = await self.one(self.store.reap_expired())
        self.assertEqual((reaped.id, reaped.status, reaped.attempts), (job.id, JobStatus.QUEUED, 1))
        self.assertEqual((reaped.worker_id, reaped.started_at, reaped.lease_expires_at), (None, None, None))
        self.assertIsNone(reaped.finished_at)
        self.assertEqual(reaped, await self.read(job))
        (lost,) = await self.store.executions(job.id)
        self.assertEqual((lost.claim, lost.attempt, lost.status), (1, 1, ExecutionStatus.LOST))
        self.assertEqual((lost.worker_id, lost.started_at), ("worker-1", started))
        self.assertEqual((lost.finished_at, lost.error_type), (self.clock.now(), WORKER_LOST))
        again = await self.one(self.take(worker="worker-2"))
        self.assertEqual((again.id, again.attempts, again.claims), (job.id, 2, 2))

    async def test_a_lost_job_without_attempts_left_has_failed(self) -> None:
        """The last attempt lost is the job failed for good, with the reason to read."""
        job = await self.running(max_attempts=1)
        self.clock.advance(61)
        reaped = await self.one(self.store.reap_expired())
        self.assertEqual((reaped.status, reaped.finished_at), (JobStatus.FAILED, self.clock.now()))
        self.assertIsNone(reaped.lease_expires_at)
        self.assertIn("WorkerLost", reaped.last_error or "")
        self.assertEqual(await self.take(), [])
        await self.assert_attempts(job, (1, 1, ExecutionStatus.LOST))

    async def test_a_lease_that_still_runs_is_left_alone(self) -> None:
        """The reaper takes nothing early, and nothing that is not running."""
        job = await self.running()
        await self.put()
        self.clock.advance(59)
        self.assertEqual(await self.store.reap_expired(), [])
        await self.assert_untouched(job, "reaping")

    async def test_a_heartbeat_lengthens_the_lease(self) -> None:
        """From now, by what it says; the job is otherwise as it was."""
        job = await self.running()
        self.clock.advance(50)
        self.assertTrue(await self.holds(job, lease=60))
        self.assertEqual((await self.read(job)).lease_expires_at, self.clock.now() + 60)
        self.clock.advance(50)
        self.assertEqual(await self.store.reap_expired(), [])
        self.clock.advance(11)
        self.assert_ids(await self.store.reap_expired(), [job])

    async def test_a_heartbeat_answers_for_each_job(self) -> None:
        """Of many claims exactly those still held are renewed and named; the others are left as they are."""
        done, stopped, held, other = [await self.running() for _ in range(4)]
        await self.complete(done)
        await self.store.cancel(stopped.id)
        waiting = await self.put()
        asked = [Held(job.id, 1) for job in (done, held, stopped, other, waiting)]
        asked += [Held(self.job().id, 1), Held(held.id, 2), Held(other.id, 0)]
        before = [await self.read(job) for job in (done, stopped, waiting)]
        self.clock.advance(10)
        renewed = await self.store.heartbeat(asked, 60)
        self.assertEqual(sorted(renewed, key=lambda entry: entry.job_id), [Held(held.id, 1), Held(other.id, 1)])
        self.assertEqual(len(await self.store.heartbeat([], 60)), 0)
        for job in before:
            await self.assert_untouched(job, "a heartbeat")

    async def test_a_worker_cannot_keep_anothers_claim_alive(self) -> None:
        """After a reap and a new claim, by another or the same worker, the old claim's heartbeat is refused."""
        for worker in ("worker-2", "worker-1"):
            old = await self.running()
            self.clock.advance(61)
            self.assert_ids(await self.store.reap_expired(), [old])
            self.assertFalse(await self.holds(old), "nobody holds it")
            new = await self.one(self.take(worker=worker, lease=30))
            self.assertFalse(await self.holds(old), f"{worker} holds it now")
            await self.assert_untouched(new)
            self.assertTrue(await self.holds(new))
            self.assertTrue(await self.complete(new))

    async def test_late_but_not_yet_reaped_is_in_time(self) -> None:
        """As long as nobody took the job back its holder may renew it or report."""
        slow, done = await self.running(), await self.running()
        self.clock.advance(1_000)
        self.assertTrue(await self.holds(slow))
        self.assertTrue(await self.complete(done))
        self.assertEqual(await self.store.reap_expired(), [])

    async def test_a_reap_is_bounded(self) -> None:
        """At most `limit` jobs in one pass; the next one goes on."""
        jobs = [await self.running() for _ in range(5)]
        self.clock.advance(61)
        passes = [await self.store.reap_expired(limit=2) for _ in range(4)]
        self.assertEqual([len(taken) for taken in passes], [2, 2, 1, 0])
        self.assertEqual(sorted(job.id for job in chain(*passes)), [job.id for job in jobs])

    async def test_a_reap_leaves_what_its_caller_runs(self) -> None:
        """Its process may have been suspended past its leases. What it held before the present claim is not its own."""
        mine, lost, again = [await self.running() for _ in range(3)]
        self.clock.advance(61)
        self.assertEqual(
            await self.store.reap_expired(own=lambda: [Held(job.id, 1) for job in (mine, lost, again)]), []
        )
        self.assert_ids(await self.store.reap_expired(own=lambda: [Held(mine.id, 1), Held(again.id, 0)]), [lost, again])
        for job in await self.take(2, worker="worker-2", lease=30):
            self.assertEqual(job.claims, 2)
        self.clock.advance(31)
        held = [Held(mine.id, 1), Held(lost.id, 1), Held(again.id, 2)]
        self.assert_ids(await self.store.reap_expired(own=lambda: held), [lost])
        await self.assert_untouched(mine, "reaping")
        self.assertTrue(await self.complete(mine))

    async def test_recovery_needs_nothing_but_the_job(self) -> None:
        """Any client takes lost jobs back, also when the client that claimed them is gone."""
        clients = await self.clients(2)
        await self.put()
        job = await self.one(self.take(by=clients[-1]))
        if self.independent_clients:
            await clients[-1].close()
        self.clock.advance(61)
        self.assert_ids(await self.store.reap_expired(), [job])

    @needs("dedup")
    async def test_the_key_of_a_lost_job(self) -> None:
        """Held while the job will run again; free once it failed for good."""
        job = await self.running(key="invoice:7", max_attempts=2)
        self.clock.advance(61)
        await self.store.reap_expired()
        self.assertEqual((await self.put(key="invoice:7")).id, job.id)
        await self.one(self.take())
        self.clock.advance(61)
        await self.store.reap_expired()
        self.assertFalse((await self.put(key="invoice:7")).existing)

    async def test_racing_reapers_share_the_jobs(self) -> None:
        """Each lost job is taken back once, so its failure is told once."""
        clients = await self.clients()
        for _ in range(self.rounds):
            await self.store.enqueue_many([self.job(max_attempts=1) for _ in range(12)])
            jobs = await self.take(12)
            self.clock.advance(61)
            answers = await self.race(*(client.reap_expired() for client in clients))
            reaped = [*chain(*answers), *await self.store.reap_expired()]
            self.assertEqual(sorted(job.id for job in reaped), [job.id for job in jobs])
            self.assertEqual({job.status for job in reaped}, {JobStatus.FAILED})

    async def test_a_reaper_racing_the_outcome(self) -> None:
        """One of them wins, and everything the store tells agrees with who it was."""
        clients = await self.clients(2)
        for _ in range(self.rounds * 2):
            job = await self.running()
            self.clock.advance(61)

            async def report(job: Job = job) -> bool:
                return await self.complete(job, b"1", by=clients[0])

            async def reap(job: Job = job) -> bool:
                return [found.id for found in await clients[-1].reap_expired()] == [job.id]

            finished, reaped = await self.race(report(), reap())
            if not finished and not reaped:
                reaped = await reap()
            self.assertNotEqual(finished, reaped, "exactly one of outcome and reaper wins")
            await self.assert_status(job, JobStatus.SUCCESS if finished else JobStatus.QUEUED)
            status = ExecutionStatus.SUCCESS if finished else ExecutionStatus.LOST
            await self.assert_attempts(job, (1, 1, status))
            await self.store.cancel(job.id)

    async def test_a_reaper_racing_a_heartbeat(self) -> None:
        """A renewed job stays with its worker; a job taken back is not renewed."""
        clients = await self.clients(2)
        for _ in range(self.rounds * 2):
            job = await self.running()
            self.clock.advance(61)

            async def beat(job: Job = job) -> bool:
                return await self.holds(job, by=clients[0])

            async def reap() -> bool:
                return bool(await clients[-1].reap_expired())

            renewed, reaped = await self.race(beat(), reap())
            self.assertFalse(renewed and reaped, "taken back although its heartbeat was answered")
            found = await self.read(job)
            self.assertEqual(found.status, JobStatus.QUEUED if reaped else JobStatus.RUNNING)
            if renewed:
                self.assertEqual(found.lease_expires_at, self.clock.now() + 60)
            await self.store.cancel(job.id)
