"""Recording: what each way to end a claim leaves behind, and that only the claim that holds the job may end it."""

from collections.abc import Awaitable, Callable

from tinyjobs.core.job import Job
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import ExecutionError, failed
from tinyjobs.testing.contract.case import ERROR, ContractCase, needs

RUNNING, SUCCESS, FAILED = ExecutionStatus.RUNNING, ExecutionStatus.SUCCESS, ExecutionStatus.FAILED
CANCELLED, LOST = ExecutionStatus.CANCELLED, ExecutionStatus.LOST


class Recording(ContractCase):
    """One outcome at a time, in the hands of its holder."""

    async def test_success(self) -> None:
        """The job has ended with its result, and its attempt is in the history with start, end and worker."""
        job = await self.running()
        started = self.clock.now()
        self.clock.advance(7.5)
        self.assertTrue(await self.complete(job, b'{"sent": true}'))
        found = await self.assert_status(job, JobStatus.SUCCESS)
        self.assertEqual(
            (found.result, found.finished_at, found.started_at), (b'{"sent": true}', started + 7.5, started)
        )
        self.assertEqual((found.attempts, found.claims, found.lease_expires_at), (1, 1, None))
        self.assertEqual((found.worker_id, found.last_error, found.payload), ("worker-1", None, job.payload))
        (entry,) = await self.store.executions(job.id)
        self.assertEqual((entry.job_id, entry.claim, entry.attempt, entry.status), (job.id, 1, 1, SUCCESS))
        self.assertEqual((entry.started_at, entry.finished_at), (started, started + 7.5))
        self.assertEqual((entry.worker_id, entry.error_type, entry.traceback), ("worker-1", None, None))

    async def test_success_without_a_result(self) -> None:
        """No result and an empty one are told apart."""
        none, empty = await self.running(), await self.running()
        await self.complete(none)
        await self.complete(empty, b"")
        self.assertEqual(((await self.read(none)).result, (await self.read(empty)).result), (None, b""))

    @needs("delayed")
    async def test_a_failure_to_be_retried(self) -> None:
        """The job waits for its next attempt and can be claimed then; the failed attempt stays failed for good."""
        job = await self.running()
        self.clock.advance(2)
        failed_at = self.clock.now()
        self.assertTrue(await self.fail_job(job, retry_at=failed_at + 30))
        found = await self.assert_status(job, JobStatus.QUEUED)
        self.assertEqual(
            (found.run_at, found.attempts, found.last_error), (failed_at + 30, 1, "ValueError: no such order")
        )
        self.assertEqual((found.worker_id, found.started_at, found.finished_at), (None, None, None))
        self.assertIsNone(found.lease_expires_at)
        self.assertEqual((await self.claim()).next_due, failed_at + 30)
        self.clock.advance(30)
        again = await self.one(self.take(worker="worker-2"))
        self.assertEqual((again.attempts, again.claims), (2, 2))
        self.assertTrue(await self.complete(again))
        self.assertIsNone((await self.read(job)).last_error, "the job ended well")
        first, second = await self.store.executions(job.id)
        self.assertEqual((first.status, first.error_type, first.traceback), (FAILED, ERROR.error_type, ERROR.traceback))
        self.assertEqual((first.finished_at, first.worker_id), (failed_at, "worker-1"))
        self.assertEqual((second.status, second.claim, second.worker_id), (SUCCESS, 2, "worker-2"))

    async def test_a_retry_that_is_due_at_once(self) -> None:
        """A retry without delay can be claimed in the same instant, and before younger jobs."""
        job = await self.running()
        self.clock.advance(1)
        await self.put(run_at=self.clock.now() + 0.5)
        self.assertTrue(await self.fail_job(job, retry_at=self.clock.now()))
        self.clock.advance(1)
        self.assert_ids(await self.take(), [job])

    async def test_a_failure_for_good(self) -> None:
        """The job has ended; no claim finds it any more."""
        job = await self.running()
        self.clock.advance(3)
        self.assertTrue(await self.fail_job(job))
        found = await self.assert_status(job, JobStatus.FAILED)
        self.assertEqual((found.finished_at, found.last_error), (self.clock.now(), "ValueError: no such order"))
        self.assertEqual((found.result, found.lease_expires_at, found.worker_id), (None, None, "worker-1"))
        self.clock.advance(1_000_000)
        self.assertEqual(await self.take(), [])
        await self.assert_attempts(job, (1, 1, FAILED))

    async def test_a_timeout_is_told_apart(self) -> None:
        """An attempt that ran out of time is in the history as just that."""
        job = await self.running()
        await self.record(failed(job, ERROR, None, self.clock.now(), ExecutionStatus.TIMEOUT))
        await self.assert_attempts(job, (1, 1, ExecutionStatus.TIMEOUT))

    async def test_an_error_without_a_traceback_shows_its_message(self) -> None:
        """Whoever reads the history always finds what went wrong."""
        job = await self.running()
        await self.fail_job(job, error=ExecutionError(error_type="shop.errors.Refused", message="no"))
        (entry,) = await self.store.executions(job.id)
        self.assertEqual((entry.error_type, entry.traceback), ("shop.errors.Refused", "no"))

    async def test_release(self) -> None:
        """A run cut short costs no attempt and stays in the history as cancelled; the job is ready again."""
        job = await self.running(max_attempts=1)
        self.clock.advance(1)
        self.assertTrue(await self.release(job))
        found = await self.assert_status(job, JobStatus.QUEUED)
        self.assertEqual((found.attempts, found.claims, found.hand_backs), (0, 1, 0))
        self.assertEqual((found.worker_id, found.started_at, found.lease_expires_at), (None, None, None))
        await self.assert_attempts(job, (1, 1, CANCELLED))
        again = await self.one(self.take())
        self.assertEqual((again.id, again.attempts, again.claims), (job.id, 1, 2))
        await self.assert_attempts(job, (1, 1, CANCELLED), (2, 1, RUNNING))

    async def test_hand_back(self) -> None:
        """A claim that never became a run leaves nothing behind but its count."""
        job = await self.running(max_attempts=1)
        self.assertTrue(await self.hand_back(job))
        found = await self.assert_status(job, JobStatus.QUEUED)
        self.assertEqual((found.attempts, found.claims, found.hand_backs), (0, 1, 1))
        self.assertEqual((found.worker_id, found.started_at, found.lease_expires_at), (None, None, None))
        await self.assert_attempts(job)
        again = await self.one(self.take())
        self.assertEqual((again.id, again.attempts, again.claims, again.hand_backs), (job.id, 1, 2, 1))
        self.assertTrue(await self.hand_back(again))
        last = await self.one(self.take())
        self.assertEqual(last.hand_backs, 2)
        self.assertTrue(await self.complete(last))
        self.assertEqual((await self.read(job)).hand_backs, 0, "only those in a row are counted")
        await self.assert_attempts(job, (3, 1, SUCCESS))

    @needs("delayed")
    async def test_giving_back_for_later(self) -> None:
        """With a delay the job is not claimed before it has passed."""
        for give_back in (self.release, self.hand_back):
            job = await self.running()
            self.assertTrue(await give_back(job, 60))
            self.assertEqual((await self.read(job)).run_at, self.clock.now() + 60)
            self.assertEqual(await self.take(), [])
            self.clock.advance(60)
            self.assert_ids(await self.take(), [job])

    async def test_giving_back_at_once_keeps_the_place_in_line(self) -> None:
        """A job given back is as old as it was, and goes before those sent meanwhile."""
        for give_back in (self.release, self.hand_back):
            job = await self.running()
            self.clock.advance(1)
            younger = await self.put()
            self.clock.advance(1)
            await give_back(job)
            self.assert_ids(await self.take(2), [job, younger])

    async def test_a_later_error_replaces_an_earlier_one(self) -> None:
        """The job shows its last error; each attempt keeps its own. Giving a job back keeps what it showed."""
        job = await self.running()
        await self.fail_job(job, retry_at=self.clock.now())
        second = await self.one(self.take())
        await self.release(second)
        self.assertEqual((await self.read(job)).last_error, "ValueError: no such order")
        third = await self.one(self.take())
        await self.fail_job(third, error=ExecutionError(error_type="KeyError", message="price"))
        self.assertEqual((await self.read(job)).last_error, "KeyError: price")
        entries = await self.store.executions(job.id)
        self.assertEqual([entry.error_type for entry in entries], ["builtins.ValueError", None, "KeyError"])

    async def test_the_attempt_under_way_is_shown(self) -> None:
        """`executions` tells of a running attempt as well, with worker and start, and without an end."""
        job = await self.running()
        self.clock.advance(4)
        (entry,) = await self.store.executions(job.id)
        self.assertEqual((entry.claim, entry.attempt, entry.status, entry.worker_id), (1, 1, RUNNING, "worker-1"))
        self.assertEqual((entry.started_at, entry.finished_at, entry.error_type), (job.started_at, None, None))


class Fencing(ContractCase):
    """Calls of those who do not hold the job any more, or never did."""

    async def test_stale_calls_change_nothing(self) -> None:
        """Success, failure, release and hand-back of a claim that no longer holds are refused, whatever ended it."""
        for ending in (self._ended, self._cancelled, self._reaped, self._failed_for_now, self._given_back):
            old = await self.running()
            await ending(old)
            await self._assert_refused(old, ending.__name__)
            await self.store.cancel(old.id)

    async def test_stale_calls_do_not_touch_the_next_claim(self) -> None:
        """The run that replaced a stalled one is safe from it, also when the same worker claimed the job again."""
        for worker in ("worker-2", "worker-1"):
            for ending in (self._reaped, self._failed_for_now, self._given_back, self._retried_by_hand):
                old = await self.running()
                await ending(old)
                new = await self.one(self.take(worker=worker))
                self.assertEqual((new.id, new.claims), (old.id, 2))
                await self._assert_refused(old, f"{ending.__name__}, then {worker}")
                self.assertTrue(await self.complete(new, b"2"))
                await self._assert_refused(old, f"{ending.__name__}, then {worker} to the end")
                self.assertEqual((await self.read(new)).result, b"2")

    async def test_calls_for_jobs_that_do_not_run(self) -> None:
        """A job that waits, or that the store does not know, cannot be ended by anybody."""
        waiting = await self.put()
        await self._assert_refused(waiting, "never claimed")
        unknown = self.job(claims=1, attempts=1, started_at=self.clock.now(), worker_id="worker-1")
        for call in self._calls(unknown):
            self.assertFalse(await call())
        self.assertIsNone(await self.store.get(unknown.id))

    async def test_history_is_kept_by_claim(self) -> None:
        """Retrying by hand starts the attempts anew and leaves every earlier one in the history."""
        job = await self.running(max_attempts=1)
        await self.fail_job(job)
        for claim in (2, 3):
            self.assertTrue(await self.store.requeue(job.id))
            again = await self.one(self.take())
            self.assertEqual((again.attempts, again.claims), (1, claim))
            await self.fail_job(again)
        await self.assert_attempts(job, (1, 1, FAILED), (2, 1, FAILED), (3, 1, FAILED))

    async def test_racing_reports_of_one_claim(self) -> None:
        """An outcome written again because its answer was lost is applied once."""
        clients = await self.clients()
        for _ in range(self.rounds):
            job = await self.running()
            answers = await self.race(*(self.complete(job, b"1", by=client) for client in clients))
            self.assertEqual(sorted(answers), [False] * (self.racers - 1) + [True])
            await self.assert_attempts(job, (1, 1, SUCCESS))

    async def test_racing_different_reports(self) -> None:
        """Of outcomes that contradict each other one is applied, whole."""
        clients = await self.clients(3)
        for _ in range(self.rounds):
            job = await self.running()
            answers = await self.race(
                self.complete(job, b"1", by=clients[0]),
                self.fail_job(job, by=clients[1]),
                self.release(job, by=clients[2]),
            )
            self.assertEqual(sum(answers), 1)
            found = await self.read(job)
            won = answers.index(True)
            self.assertEqual(found.status, (JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.QUEUED)[won])
            self.assertEqual(found.result, b"1" if won == 0 else None)
            await self.assert_attempts(job, (1, 1, (SUCCESS, FAILED, CANCELLED)[won]))
            await self.store.cancel(job.id)

    def _calls(self, job: Job) -> tuple[Callable[[], Awaitable[bool]], ...]:
        return (
            lambda: self.complete(job, b"late"),
            lambda: self.fail_job(job),
            lambda: self.fail_job(job, retry_at=self.clock.now() + 1),
            lambda: self.release(job),
            lambda: self.hand_back(job),
            lambda: self.holds(job),
        )

    async def _assert_refused(self, old: Job, how: str) -> None:
        before, history = await self.read(old), await self.store.executions(old.id)
        for number, call in enumerate(self._calls(old)):
            self.assertFalse(await call(), f"call {number} was taken after: {how}")
        self.assertEqual(await self.read(old), before, how)
        self.assertEqual(await self.store.executions(old.id), history, how)

    async def _ended(self, job: Job) -> None:
        await self.complete(job, b"1")

    async def _cancelled(self, job: Job) -> None:
        await self.store.cancel(job.id)

    async def _reaped(self, job: Job) -> None:
        self.clock.advance(61)
        self.assert_ids(await self.store.reap_expired(), [job])

    async def _failed_for_now(self, job: Job) -> None:
        await self.fail_job(job, retry_at=self.clock.now())

    async def _given_back(self, job: Job) -> None:
        await self.hand_back(job)

    async def _retried_by_hand(self, job: Job) -> None:
        await self.store.cancel(job.id)
        self.assertTrue(await self.store.requeue(job.id))
