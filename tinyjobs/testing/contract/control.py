"""Control: cancelling and retrying by hand, at rest and against whatever happens at the same moment."""

from collections.abc import Callable, Coroutine
from itertools import chain
from typing import Any

from tinyjobs.backends.base import Backend, BaseBackend
from tinyjobs.core.job import Job
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.testing.contract.case import ContractCase, needs

SUCCESS, FAILED, CANCELLED = ExecutionStatus.SUCCESS, ExecutionStatus.FAILED, ExecutionStatus.CANCELLED


class Control(ContractCase):
    """`cancel` and `requeue`."""

    async def test_cancelling_a_queued_job(self) -> None:
        """It has ended and is never claimed."""
        job = await self.put()
        self.clock.advance(2)
        self.assertTrue(await self.store.cancel(job.id))
        found = await self.assert_status(job, JobStatus.CANCELLED)
        self.assertEqual((found.finished_at, found.attempts), (self.clock.now(), 0))
        self.assertEqual((await self.take(), await self.store.next_due()), ([], (False, None)))
        await self.assert_attempts(job)

    @needs("delayed")
    async def test_cancelling_a_delayed_job(self) -> None:
        """It never comes due, whether it waits for its first time or for a retry."""
        first = await self.put(run_at=self.clock.now() + 60)
        second = await self.running()
        await self.fail_job(second, retry_at=self.clock.now() + 60)
        for job in (first, second):
            self.assertTrue(await self.store.cancel(job.id))
        self.assertEqual(await self.store.next_due(), (False, None))
        self.clock.advance(60)
        self.assertEqual(await self.take(), [])
        await self.assert_attempts(second, (1, 1, FAILED))

    async def test_cancelling_a_running_job(self) -> None:
        """The attempt is marked and can report no more; no lease is left to run out."""
        job = await self.running()
        started = self.clock.now()
        self.clock.advance(3)
        self.assertTrue(await self.store.cancel(job.id))
        found = await self.assert_status(job, JobStatus.CANCELLED)
        self.assertEqual((found.finished_at, found.lease_expires_at), (self.clock.now(), None))
        (entry,) = await self.store.executions(job.id)
        self.assertEqual((entry.claim, entry.attempt, entry.status), (1, 1, CANCELLED))
        self.assertEqual((entry.started_at, entry.finished_at), (started, started + 3))
        self.assertEqual(entry.worker_id, "worker-1")
        self.assertFalse(await self.complete(job, b"late"))
        self.assertFalse(await self.fail_job(job, retry_at=self.clock.now()))
        self.clock.advance(1_000)
        self.assertEqual((await self.store.reap_expired(), await self.take()), ([], []))
        self.assertEqual(await self.read(job), found)

    async def test_cancelling_what_has_ended(self) -> None:
        """Nothing changes, and the answer says so; the same for a job that is not there."""
        done, broken, stopped = await self.running(), await self.running(), await self.put()
        await self.complete(done, b"1")
        await self.fail_job(broken)
        await self.store.cancel(stopped.id)
        self.clock.advance(1)
        for job in (done, broken, stopped):
            before = await self.read(job)
            self.assertFalse(await self.store.cancel(job.id))
            await self.assert_untouched(before, "a refused cancel")
        self.assertFalse(await self.store.cancel(self.job().id))
        self.assertFalse(await self.store.cancel("no such id"))

    async def test_retrying_by_hand(self) -> None:
        """A failed job starts over: attempts from the beginning, due at once, its claims and history kept."""
        job = await self.running(max_attempts=1)
        await self.fail_job(job)
        self.clock.advance(100)
        self.assertTrue(await self.store.requeue(job.id))
        found = await self.assert_status(job, JobStatus.QUEUED)
        self.assertEqual((found.attempts, found.claims, found.hand_backs), (0, 1, 0))
        self.assertEqual((found.run_at, found.finished_at, found.result), (self.clock.now(), None, None))
        self.assertEqual((found.worker_id, found.started_at, found.lease_expires_at), (None, None, None))
        again = await self.one(self.take())
        self.assertEqual((again.id, again.attempts, again.claims), (job.id, 1, 2))
        self.assertTrue(await self.complete(again, b"now"))
        await self.assert_attempts(job, (1, 1, FAILED), (2, 1, SUCCESS))

    @needs("delayed")
    async def test_retrying_a_cancelled_job(self) -> None:
        """One that was never claimed keeps the time it was sent for; one that ran is due at once."""
        run_at = self.clock.now() + 60
        waiting, ran = await self.put(run_at=run_at), await self.running()
        for job in (waiting, ran):
            await self.store.cancel(job.id)
        self.clock.advance(10)
        for job in (waiting, ran):
            self.assertTrue(await self.store.requeue(job.id))
        self.assertEqual((await self.read(waiting)).run_at, run_at)
        self.assert_ids(await self.take(9), [ran])
        self.assertEqual(await self.store.next_due(), (False, run_at))
        self.clock.advance(50)
        self.assert_ids(await self.take(9), [waiting])

    @needs("delayed")
    async def test_a_retry_whose_time_has_passed_is_ready(self) -> None:
        """A cancelled job retried after the time it was sent for is due at once, at its old age."""
        job = await self.put(run_at=self.clock.now() + 10)
        await self.store.cancel(job.id)
        self.clock.advance(20)
        younger = await self.put()
        self.assertTrue(await self.store.requeue(job.id))
        self.assert_ids(await self.take(9), [job, younger])

    async def test_what_cannot_be_retried(self) -> None:
        """A job that is active or ended well stays as it is; one that is not there is no error."""
        done, held = await self.running(), await self.running()
        await self.complete(done, b"1")
        waiting = await self.put()
        for job in (await self.read(done), held, waiting):
            self.assertFalse(await self.store.requeue(job.id))
            await self.assert_untouched(job, "a refused retry")
        self.assertFalse(await self.store.requeue(self.job().id))

    async def test_a_cancelled_run_does_not_come_back(self) -> None:
        """After cancel and retry the old run is fenced off and the history tells all of it."""
        job = await self.running()
        await self.store.cancel(job.id)
        await self.store.requeue(job.id)
        self.assertFalse(await self.complete(job, b"late"))
        again = await self.one(self.take())
        self.assertFalse(await self.complete(job, b"late"))
        self.assertTrue(await self.complete(again, b"right"))
        self.assertEqual((await self.read(job)).result, b"right")
        await self.assert_attempts(job, (1, 1, CANCELLED), (2, 1, SUCCESS))

    async def test_a_cancel_racing_the_outcome(self) -> None:
        """One of them wins, whatever the outcome is, and a cancelled job never starts again."""
        clients = await self.clients(2)

        async def fail_for_now(job: Job, *, by: Backend) -> bool:
            return await self.fail_job(job, self.clock.now(), by=by)

        reports: list[Callable[..., Coroutine[Any, Any, bool]]]
        reports = [self.complete, fail_for_now, self.release, self.hand_back]
        for report in reports * self.rounds:
            job = await self.running()
            told, cancelled = await self.race(
                report(job, by=clients[0]),
                clients[-1].cancel(job.id),
            )
            found = await self.read(job)
            if report == self.complete:
                self.assertNotEqual(told, cancelled)
                self.assertEqual(found.status, JobStatus.SUCCESS if told else JobStatus.CANCELLED)
            else:
                # Put back and then cancelled is an order of events too.
                self.assertTrue(cancelled)
                self.assertEqual(found.status, JobStatus.CANCELLED)
            self.assertEqual(await self.take(), [])
            attempts = await self.store.executions(job.id)
            self.assertLessEqual(len(attempts), 1)
            if not told:
                self.assertEqual([entry.status for entry in attempts], [CANCELLED])

    async def test_a_cancel_racing_a_claim(self) -> None:
        """The cancel always lands; the claim got a job that is marked cancelled, or nothing."""
        clients = await self.clients(2)
        for _ in range(self.rounds * 2):
            job = await self.put()

            async def claim() -> list[Job]:
                return await self.take(by=clients[-1])

            async def cancel(job_id: str = job.id) -> list[Job]:
                self.assertTrue(await clients[0].cancel(job_id))
                return []

            taken, _ = await self.race(claim(), cancel())
            await self.assert_status(job, JobStatus.CANCELLED)
            await self.assert_attempts(job, *([(1, 1, CANCELLED)] if taken else []))
            for claimed in taken:
                self.assertFalse(await self.complete(claimed))

    async def test_racing_retries_by_hand(self) -> None:
        """Two people press the button: the job comes back once."""
        clients = await self.clients()
        for _ in range(self.rounds):
            job = await self.running()
            await self.fail_job(job)
            answers = await self.race(*(client.requeue(job.id) for client in clients))
            self.assertEqual(answers.count(True), 1)
            taken = await self.race(*(self.take(by=client) for client in clients))
            claimed = [*chain(*taken)] or await self.take()
            self.assert_ids(claimed, [job])
            await self.complete(claimed[0])


class Deleting(ContractCase):
    """`delete` and `neighbours`."""

    @needs("delete")
    async def test_deleting_what_has_ended(self) -> None:
        """However it ended: the job is gone with its history, and for good."""
        done, broken, stopped = await self.running(), await self.running(), await self.running()
        await self.complete(done, b"1")
        await self.fail_job(broken)
        await self.store.cancel(stopped.id)
        unstarted = await self.put()
        await self.store.cancel(unstarted.id)
        kept = await self.running()
        await self.complete(kept)
        for job in (done, broken, stopped, unstarted):
            self.assertTrue(await self.store.delete(job.id))
            self.assertIsNone(await self.store.get(job.id))
            self.assertEqual(await self.store.executions(job.id), [])
            self.assertFalse(await self.store.delete(job.id), "it was gone")
            self.assertEqual((await self.store.cancel(job.id), await self.store.requeue(job.id)), (False, False))
        self.assertFalse(await self.complete(done))
        self.assert_ids((await self.store.list()).jobs, [kept])
        await self.assert_attempts(kept, (1, 1, SUCCESS))

    @needs("delete")
    async def test_a_job_that_has_not_ended_is_not_deleted(self) -> None:
        """Neither one that waits for its turn nor one that runs, nor one that is back after an end."""
        running, retried = await self.running(), await self.running()
        await self.fail_job(retried, retry_at=self.clock.now())
        queued = await self.put()
        active = [running, retried, queued]
        if self.store.capabilities.delayed:
            active.append(await self.put(run_at=self.clock.now() + 60))
        by_hand = await self.put()
        await self.store.cancel(by_hand.id)
        await self.store.requeue(by_hand.id)
        for job in (*active, by_hand):
            before = await self.read(job)
            self.assertFalse(await self.store.delete(job.id))
            await self.assert_untouched(before, "a refused delete")
        self.assertFalse(await self.store.delete(self.job().id))
        self.assertFalse(await self.store.delete("no such id"))
        self.assertTrue(await self.complete(running))
        await self.assert_attempts(retried, (1, 1, FAILED))

    @needs("delete")
    @needs("dedup")
    async def test_deleting_leaves_keys_alone(self) -> None:
        """A key is free before and after, and one that another job holds by now stays held."""
        first = await self.running(key="order:1")
        await self.complete(first)
        second = await self.put(key="order:1")
        self.assertTrue(await self.store.delete(first.id))
        again = await self.put(key="order:1")
        self.assertEqual((again.id, again.existing), (second.id, True))
        await self.store.cancel(second.id)
        self.assertTrue(await self.store.delete(second.id))
        self.assertFalse((await self.put(key="order:1")).existing)

    @needs("delete")
    async def test_a_deleted_id_may_come_again(self) -> None:
        """Nothing of the job is left that another one with its id would meet."""
        job = await self.running(payload=b"old")
        await self.fail_job(job, retry_at=self.clock.now())
        await self.fail_job(await self.one(self.take()))
        await self.store.delete(job.id)
        self.clock.advance(1)
        sent = await self.store.enqueue(self.job(id=job.id, payload=b"new"))
        self.assertFalse(sent.existing)
        again = await self.one(self.take())
        self.assertEqual((again.id, again.payload, again.claims, again.attempts), (job.id, b"new", 1, 1))
        await self.complete(again)
        await self.assert_attempts(job, (1, 1, SUCCESS))

    @needs("delete")
    async def test_racing_to_delete(self) -> None:
        """One caller is told that it did; against a retry, one of the two happened."""
        for _ in range(self.rounds):
            job = await self.running()
            await self.fail_job(job)
            stores = await self.clients()
            told = await self.race(*(store.delete(job.id) for store in stores))
            self.assertEqual(sorted(told), [False] * (len(stores) - 1) + [True])
            job = await self.running()
            await self.fail_job(job)
            deleted, requeued = await self.race(stores[0].delete(job.id), stores[-1].requeue(job.id))
            self.assertEqual([deleted, requeued].count(True), 1)
            found = await self.store.get(job.id)
            self.assertEqual(found is None, deleted)
            if found is not None:
                await self.assert_attempts(job, (1, 1, FAILED))
                await self.store.cancel(job.id)

    async def test_neighbours(self) -> None:
        """The next newer and the next older job, of whatever status; also of an id that is not there any more."""
        if type(self._made).neighbours is BaseBackend.neighbours:
            self.skipTest(f"{type(self._made).__name__} does not know what stands beside a job")
        jobs = [await self.put(queue=queue) for queue in ("mail", "reports", "mail")]
        await self.complete(await self.one(self.take()))
        missing = self.job()
        self.clock.advance(1)
        jobs.append(await self.put())
        ids = [job.id for job in jobs]
        self.assertEqual(await self.store.neighbours(ids[0]), (ids[1], None))
        self.assertEqual(await self.store.neighbours(ids[1]), (ids[2], ids[0]))
        self.assertEqual(await self.store.neighbours(missing.id), (ids[3], ids[2]))
        self.assertEqual(await self.store.neighbours(ids[3]), (None, ids[2]))
