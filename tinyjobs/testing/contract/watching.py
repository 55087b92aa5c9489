"""What is kept for whoever watches: the workers that are there, and what ended by the minute."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from tinyjobs.core.job import Job
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import Outcome, expired, failed, succeeded
from tinyjobs.core.watching import FORGOTTEN_AFTER, Tally, WorkerSeen, add_up
from tinyjobs.testing.contract.case import ERROR, ContractCase, needs


class Workers(ContractCase):
    """`beat`, `sign_off` and `workers`."""

    def worker(self, name: str, **values: Any) -> WorkerSeen:
        """A worker that has just started."""
        values = {"host": "host-1", "pid": 4_711, "version": "1.0", "started_at": self.clock.now(), **values}
        return WorkerSeen(worker_id=name, **values)

    @needs("workers_seen")
    async def test_a_worker_is_seen_as_it_tells_of_itself(self) -> None:
        """Every field comes back, and when it was seen is the store's to say."""
        plain = self.worker("worker-1", seen_at=5.0)
        self.clock.advance(3)
        full = self.worker(
            "worker-2",
            queues=("mail", "a b", "é", 'quo"te'),
            threads=4,
            coroutines=100,
            running=7,
            is_stopping=True,
            scheduled_at=self.clock.now() - 2,
        )
        self.assertEqual(await self.store.workers(), [])
        await self.store.beat(plain)
        await self.store.beat(full)
        now = self.clock.now()
        self.assertEqual(await self.store.workers(), [replace(plain, seen_at=now), replace(full, seen_at=now)])

    @needs("workers_seen")
    async def test_a_worker_stands_there_once(self) -> None:
        """What it tells replaces what it told before, the fields that it no longer gives included."""
        first = self.worker("worker-1", queues=("mail",), running=3, scheduled_at=self.clock.now(), is_stopping=True)
        await self.store.beat(first)
        self.clock.advance(10)
        second = replace(first, queues=(), running=0, scheduled_at=None, is_stopping=False, threads=2)
        await self.store.beat(second)
        self.assertEqual(await self.store.workers(), [replace(second, seen_at=self.clock.now())])

    @needs("workers_seen")
    async def test_a_worker_signs_off(self) -> None:
        """It is gone, the others stay, and whoever signs off twice does no harm."""
        for name in ("worker-1", "worker-2"):
            await self.store.beat(self.worker(name))
        for _ in range(2):
            await self.store.sign_off("worker-1")
        await self.store.sign_off("nobody")
        self.assertEqual([worker.worker_id for worker in await self.store.workers()], ["worker-2"])
        await self.store.beat(self.worker("worker-1"))
        self.assertEqual(len(await self.store.workers()), 2)

    @needs("workers_seen")
    async def test_a_silent_worker_is_forgotten(self) -> None:
        """After an hour, and not before; one that comes back is listed again."""
        silent, lively = self.worker("worker-1"), self.worker("worker-2")
        await self.store.beat(silent)
        self.clock.advance(FORGOTTEN_AFTER - 1)
        await self.store.beat(lively)
        self.assertEqual([worker.worker_id for worker in await self.store.workers()], ["worker-1", "worker-2"])
        self.clock.advance(1)
        self.assertEqual([worker.worker_id for worker in await self.store.workers()], ["worker-2"])
        await self.store.beat(silent)
        self.assertEqual([worker.worker_id for worker in await self.store.workers()], ["worker-1", "worker-2"])

    @needs("workers_seen")
    async def test_the_oldest_worker_comes_first(self) -> None:
        """By when they started, however often and in which order they tell of themselves."""
        start = self.clock.now()
        workers = [self.worker(f"worker-{number}", started_at=start + 10 - number) for number in range(4)]
        for worker in (*workers, workers[0], workers[2]):
            self.clock.advance(1)
            await self.store.beat(worker)
        found = [worker.worker_id for worker in await self.store.workers()]
        self.assertEqual(found, ["worker-3", "worker-2", "worker-1", "worker-0"])

    @needs("workers_seen")
    async def test_workers_beat_at_once(self) -> None:
        """Each has its own place, whatever the others write."""
        stores = await self.clients()
        for round_ in range(self.rounds):
            await self.race(*(store.beat(self.worker(f"w{n}", running=round_)) for n, store in enumerate(stores)))
        found = await self.store.workers()
        self.assertEqual({(worker.worker_id, worker.running) for worker in found},
                         {(f"w{n}", self.rounds - 1) for n in range(len(stores))})  # fmt: skip


class Tallies(ContractCase):
    """`tallies`: what ended, in which queue, minute by minute."""

    async def assert_tallies(self, *expected: Tally, since: float | None = None) -> None:
        """Those since the clock's start, with sums of seconds that are as good as equal."""
        found = await self.store.tallies(self.start if since is None else since)
        self.assertEqual([_rounded(tally) for tally in found], [_rounded(tally) for tally in expected])

    async def asyncSetUp(self) -> None:
        """The clock stands at the beginning of a minute."""
        await super().asyncSetUp()
        self.clock.advance(-self.clock.now() % 60)
        self.start = self.clock.now()

    def tally(self, minute: int = 0, queue: str = "default", **values: Any) -> Tally:
        """Of the minute so many minutes after the start."""
        return Tally(start=self.start + 60 * minute, seconds=60, queue=queue, **values)

    async def run_for(self, seconds: float, end: Callable[[Job], Awaitable[object]], **values: Any) -> Job:
        """Claim the next job and end it after so many seconds."""
        job = await self.one(self.take(**values))
        self.clock.advance(seconds)
        await end(job)
        return job

    @needs("tallies")
    async def test_nothing_ended(self) -> None:
        """Jobs that wait or run count nowhere."""
        await self.running()
        await self.put()
        await self.assert_tallies()

    @needs("tallies")
    async def test_each_way_an_attempt_ends(self) -> None:
        """Successes; attempts that failed for good or are tried again, ran out of time or lost their worker."""
        for _ in range(6):
            await self.put()
        self.clock.advance(2)
        await self.run_for(1, self.complete)
        await self.run_for(0, lambda job: self.complete(job, b"1"))
        await self.run_for(0, self.fail_job)
        later = self.clock.now() + 500
        await self.run_for(0, lambda job: self.fail_job(job, retry_at=later))
        timeout = ExecutionStatus.TIMEOUT
        await self.run_for(0, lambda job: self.record(failed(job, ERROR, later, self.clock.now(), timeout)))
        await self.run_for(6, lambda _: self.store.reap_expired(), lease=5)
        # They were due at the start; the first waited for 2 seconds, the others for 3.
        await self.assert_tallies(
            self.tally(succeeded=2, unsuccessful=4, waited=17, ran=7, longest_wait=3, longest_run=6)
        )

    @needs("tallies")
    async def test_what_was_given_back_counts_nowhere(self) -> None:
        """A run that was cut short on purpose, and a claim that never became one."""
        await self.release(await self.running())
        await self.hand_back(await self.one(self.take()))
        await self.assert_tallies()

    @needs("tallies")
    async def test_cancelled_jobs(self) -> None:
        """Queued or running, each counts once, and its attempt counts as none that ended by itself."""
        queued = await self.put(queue="mail")
        running = await self.one(self.take())
        self.assertEqual(running.id, queued.id)
        other = await self.put(queue="mail")
        self.clock.advance(70)
        for job in (running, other):
            self.assertTrue(await self.store.cancel(job.id))
            self.assertFalse(await self.store.cancel(job.id))
        self.assertFalse(await self.complete(running))
        await self.assert_tallies(self.tally(1, "mail", cancelled=2))

    @needs("tallies")
    async def test_jobs_that_expired(self) -> None:
        """Ended by their worker, or before any worker came, they count as cancelled."""
        await self.put(expires_at=self.clock.now() + 5)
        self.clock.advance(10)
        late = await self.one(self.take())
        await self.record(expired(late, self.clock.now()))
        await self.put(expires_at=self.clock.now() + 5)
        self.clock.advance(10)
        early = await self.store.end_unstarted()
        await self.assert_tallies(self.tally(cancelled=1 + len(early)))

    @needs("tallies")
    async def test_minute_by_minute_and_queue_by_queue(self) -> None:
        """What ended at the last instant of a minute is that minute's; in the order of time, then queue."""
        for queue in ("mail", "mail", "reports", "reports", "mail"):
            await self.put(queue=queue)
        mail = await self.take(3, queues=("mail",))
        reports = await self.take(2, queues=("reports",))
        self.clock.advance(59.75)
        await self.complete(reports[0])
        await self.complete(mail[0])
        self.clock.advance(0.25)
        await self.complete(mail[1])
        self.clock.advance(125)
        await self.record(*(failed(job, ERROR, None, self.clock.now()) for job in (mail[2], reports[1])))
        first = {"succeeded": 1, "ran": 59.75, "longest_run": 59.75}
        last = {"unsuccessful": 1, "ran": 185, "longest_run": 185}
        await self.assert_tallies(
            self.tally(0, "mail", **first),
            self.tally(0, "reports", **first),
            self.tally(1, "mail", succeeded=1, ran=60, longest_run=60),
            self.tally(3, "mail", **last),
            self.tally(3, "reports", **last),
        )

    @needs("tallies")
    async def test_since(self) -> None:
        """From the minute in which that instant lies."""
        for _ in range(3):
            await self.put()
            await self.run_for(0, self.complete)
            self.clock.advance(60)
        expected = [self.tally(minute, succeeded=1) for minute in range(3)]
        await self.assert_tallies(*expected, since=self.start + 59)
        await self.assert_tallies(*expected[1:], since=self.start + 60)
        await self.assert_tallies(*expected[2:], since=self.start + 179)
        await self.assert_tallies(since=self.start + 180)

    @needs("tallies")
    async def test_all_workers_are_summed(self) -> None:
        """Whoever recorded it; also in one group, with what was refused left out."""
        jobs = await self.store.enqueue_many([self.job(payload=b"1") for _ in range(8)])
        self.clock.advance(4)
        first, second = await self.take(4), await self.take(4, worker="worker-2")
        await self.store.cancel(jobs[0].id)
        self.clock.advance(2)
        stores = await self.clients(2)
        await self.race(
            stores[0].record([_ended(job, self.clock.now()) for job in first]),
            stores[1].record([_ended(job, self.clock.now()) for job in second]),
        )
        self.assertEqual(await self.complete(first[0]), False)
        await self.assert_tallies(
            self.tally(succeeded=7, cancelled=1, waited=28, ran=14, longest_wait=4, longest_run=2)
        )

    @needs("tallies")
    async def test_a_group_of_every_kind(self) -> None:
        """One write: each outcome counts as it would alone, twice the same one once, a stale one not at all."""
        await self.store.enqueue_many([self.job(payload=b"1", max_attempts=3) for _ in range(6)])
        self.clock.advance(3)
        jobs = await self.take(6)
        await self.store.cancel(jobs[5].id)
        self.clock.advance(2)
        now = self.clock.now()
        await self.store.record(
            [
                _ended(jobs[0], now),
                _ended(jobs[1], now - 1),
                failed(jobs[2], ERROR, None, now),
                failed(jobs[3], ERROR, now, now),
                _ended(jobs[0], now),
                failed(jobs[0], ERROR, None, now),
                _ended(jobs[5], now),
            ]
        )
        await self.assert_tallies(
            self.tally(succeeded=2, unsuccessful=2, cancelled=1, waited=12, ran=7, longest_wait=3, longest_run=2)
        )
        await self.assert_status(jobs[4], JobStatus.RUNNING)

    @needs("tallies")
    @needs("delayed")
    async def test_a_wait_begins_when_the_attempt_is_due(self) -> None:
        """A job that was delayed, or is tried again later, does not wait before its time."""
        await self.put(run_at=self.start + 10)
        self.clock.advance(15)
        await self.run_for(0, lambda job: self.fail_job(job, retry_at=self.clock.now() + 10))
        self.clock.advance(12)
        await self.run_for(1, self.complete)
        await self.assert_tallies(
            self.tally(succeeded=1, unsuccessful=1, waited=5 + 2, ran=1, longest_wait=5, longest_run=1)
        )

    @needs("tallies")
    async def test_no_wait_and_no_run_is_negative(self) -> None:
        """A worker's clock may be behind: what ended before it began ran for no time."""
        job = await self.running()
        await self.record(_ended(job, self.clock.now() - 30))
        (tally,) = await self.store.tallies(self.start - 60)
        self.assertEqual((tally.succeeded, tally.waited, tally.ran), (1, 0, 0))

    @needs("tallies")
    async def test_a_retry_by_hand_takes_nothing_away(self) -> None:
        """What ended has ended; retrying or deleting the job is no end of anything."""
        job = await self.running()
        await self.fail_job(job)
        await self.store.requeue(job.id)
        await self.assert_tallies(self.tally(unsuccessful=1))
        await self.run_for(0, self.complete)
        if self.store.capabilities.delete:
            await self.store.delete(job.id)
        await self.assert_tallies(self.tally(succeeded=1, unsuccessful=1))

    @needs("tallies")
    async def test_tidying_changes_no_sum(self) -> None:
        """Old ones may stand for longer spans, and after a day for none; counts of jobs stay what they are."""
        for number in range(12):
            await self.store.enqueue_many([self.job(queue=queue, max_attempts=1) for queue in ("mail", "reports")])
            await self.run_for(number, self.complete, worker=f"worker-{number % 3}")
            await self.run_for(0, self.fail_job if number % 2 else lambda job: self.store.cancel(job.id))
            self.clock.advance(50)
        counts = await self.store.counts_by_status()
        ended = await self.store.tallies(self.start)
        sums = add_up(ended, self.start, 3_600)
        for age, longest in ((300, 60), (5_400, 900), (60_000, 900)):
            self.clock.advance(age)
            for _ in range(2):
                await self.store.tidy()
                found = await self.store.tallies(self.start - 900)
                self.assertEqual(found, sorted(found, key=lambda tally: (tally.start, tally.queue)))
                self.assertLessEqual({tally.seconds for tally in found} - {60.0}, {float(longest)})
                # A quarter of an hour may begin before what ended in it.
                whole = add_up(found, self.start - 900, 4_500)
                self.assertEqual(
                    [_rounded(replace(tally, start=self.start, seconds=3_600)) for tally in whole],
                    [_rounded(tally) for tally in sums],
                )
        self.clock.advance(86_400)
        await self.store.tidy()
        self.assertEqual(await self.store.tallies(self.clock.now() - 86_400), [])
        self.assertEqual(await self.store.counts_by_status(), counts)
        await self.put(queue="mail")
        await self.run_for(1, self.complete)
        (last,) = await self.store.tallies(self.clock.now() - 86_400)
        self.assertEqual((last.queue, last.succeeded, last.seconds), ("mail", 1, 60))

    @needs("workers_seen")
    async def test_tidying_forgets_silent_workers_alone(self) -> None:
        """Whoever was seen within the hour is still listed."""
        worker = WorkerSeen(worker_id="worker-1", host="h", pid=1, version="1", started_at=self.start)
        await self.store.beat(worker)
        self.clock.advance(FORGOTTEN_AFTER)
        await self.store.beat(replace(worker, worker_id="worker-2"))
        await self.store.tidy()
        self.assertEqual([found.worker_id for found in await self.store.workers()], ["worker-2"])


def _ended(job: Job, now: float) -> Outcome:
    return succeeded(job, None, now)


def _rounded(tally: Tally) -> Tally:
    sums = {name: round(getattr(tally, name), 3) for name in ("waited", "ran", "longest_wait", "longest_run")}
    assert all(math.isfinite(value) for value in sums.values())
    return replace(tally, **sums)
