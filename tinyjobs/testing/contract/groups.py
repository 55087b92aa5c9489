"""Grouped recording: many outcomes, each with an answer of its own, and the next claim in the same call."""

import asyncio

from tinyjobs.core.job import Job
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import ExecutionError, Outcome, failed, handed_back, released, succeeded
from tinyjobs.testing.contract.case import ERROR, ContractCase, needs


class Groups(ContractCase):
    """`record` with more than one outcome."""

    async def test_an_empty_group(self) -> None:
        """Nothing to record is nothing done; with a request it is a claim."""
        recorded = await self.store.record([])
        self.assertEqual((recorded.applied, recorded.claimed, dict(recorded.refused)), ([], None, {}))
        sent = await self.put()
        recorded = await self.store.record([], self.request())
        assert recorded.claimed is not None
        self.assert_ids(recorded.claimed.jobs, [sent])

    async def test_every_kind_in_one_group(self) -> None:
        """Each outcome of a mixed group is applied as if it stood alone, and answered in order."""
        jobs = [await self.running() for _ in range(5)]
        now = self.clock.now()
        applied = await self.record(
            succeeded(jobs[0], b"0", now),
            failed(jobs[1], ERROR, None, now),
            failed(jobs[2], ERROR, now + 60, now),
            released(jobs[3], now, 60),
            handed_back(jobs[4], now, 60),
        )
        self.assertEqual(applied, [True] * 5)
        found = [await self.read(job) for job in jobs]
        queued = JobStatus.QUEUED
        self.assertEqual([job.status for job in found], [JobStatus.SUCCESS, JobStatus.FAILED, queued, queued, queued])
        self.assertEqual([job.attempts for job in found], [1, 1, 1, 0, 0])
        self.assertEqual([job.result for job in found], [b"0", None, None, None, None])
        self.assertEqual([job.hand_backs for job in found], [0, 0, 0, 0, 1])
        kinds = [[entry.status for entry in await self.store.executions(job.id)] for job in jobs]
        failed_, cancelled = ExecutionStatus.FAILED, ExecutionStatus.CANCELLED
        self.assertEqual(kinds, [[ExecutionStatus.SUCCESS], [failed_], [failed_], [cancelled], []])

    async def test_stale_ones_among_live_ones(self) -> None:
        """Stale outcomes in a group are answered False and hinder nobody."""
        jobs = [await self.running() for _ in range(6)]
        await self.complete(jobs[0], b"first")
        await self.store.cancel(jobs[3].id)
        unknown = self.job(claims=1, attempts=1, started_at=self.clock.now())
        now = self.clock.now()
        applied = await self.record(*(succeeded(job, b"group", now) for job in [*jobs, unknown]))
        self.assertEqual(applied, [False, True, True, False, True, True, False])
        found = [await self.read(job) for job in jobs]
        self.assertEqual([job.result for job in found], [b"first", b"group", b"group", None, b"group", b"group"])
        self.assertEqual(found[3].status, JobStatus.CANCELLED)

    async def test_one_claim_twice_in_a_group(self) -> None:
        """Only the first report of a claim counts, also inside one group; job and history agree."""
        job, other = await self.running(), await self.running()
        now = self.clock.now()
        applied = await self.record(
            succeeded(job, b"first", now), succeeded(other, None, now), failed(job, ERROR, None, now)
        )
        self.assertEqual(applied, [True, True, False])
        self.assertEqual((await self.assert_status(job, JobStatus.SUCCESS)).result, b"first")
        await self.assert_attempts(job, (1, 1, ExecutionStatus.SUCCESS))

    async def test_record_and_claim_in_one_call(self) -> None:
        """What ended is written and the next jobs are handed out, with the answer of a claim."""
        first = [await self.running(), await self.running()]
        waiting = [await self.put() for _ in range(3)]
        outcomes = [succeeded(job, b"1", self.clock.now()) for job in first]
        recorded = await self.store.record(outcomes, self.request(2, worker="worker-9", lease=30))
        self.assertEqual(recorded.applied, [True, True])
        assert recorded.claimed is not None
        self.assert_ids(recorded.claimed.jobs, waiting[:2])
        self.assertEqual({job.worker_id for job in recorded.claimed.jobs}, {"worker-9"})
        for job in recorded.claimed.jobs:
            self.assertEqual(job, await self.read(job))
        await self.assert_status(first[0], JobStatus.SUCCESS)
        recorded = await self.store.record([succeeded(first[0], b"2", self.clock.now())], self.request(5))
        assert recorded.claimed is not None
        self.assertEqual(recorded.applied, [False])
        self.assert_ids(recorded.claimed.jobs, waiting[2:])

    async def test_recording_without_waiting(self) -> None:
        """`record_now` does what `record` does, or nothing at all and says so."""
        jobs = [await self.running(), await self.running()]
        sent = await self.put()
        outcomes = [succeeded(jobs[0], b"1", self.clock.now()), failed(jobs[1], ERROR, None, self.clock.now())]
        recorded = self.store.record_now(outcomes, self.request())
        if recorded is None:
            for job in (*jobs, sent):
                await self.assert_untouched(job, "a refused record_now")
            recorded = await self.store.record(outcomes, self.request())
        self.assertEqual(recorded.applied, [True, True])
        assert recorded.claimed is not None
        self.assert_ids(recorded.claimed.jobs, [sent])
        await self.assert_status(jobs[0], JobStatus.SUCCESS)
        await self.assert_attempts(jobs[1], (1, 1, ExecutionStatus.FAILED))
        self.assertEqual(recorded.claimed.jobs, [await self.read(sent)])

    @needs("delayed")
    async def test_the_claim_of_a_group_tells_the_next_due_instant(self) -> None:
        """A retry recorded by the group itself is counted."""
        job = await self.running()
        retry_at = self.clock.now() + 15
        recorded = await self.store.record([failed(job, ERROR, retry_at, self.clock.now())], self.request(2))
        assert recorded.claimed is not None
        self.assertEqual((recorded.claimed.jobs, recorded.claimed.next_due), ([], retry_at))

    async def test_a_large_group(self) -> None:
        """Hundreds of outcomes with results and errors of every size."""
        await self.store.enqueue_many([self.job() for _ in range(300)])
        jobs = await self.take(300)
        self.assertEqual(len(jobs), 300)
        now = self.clock.now()
        outcomes: list[Outcome] = []
        for number, job in enumerate(jobs):
            if number % 3:
                outcomes.append(succeeded(job, bytes([number % 256]) * number, now))
            else:
                error = ExecutionError(error_type="ValueError", message=f"no {number}", traceback="x" * number * 10)
                outcomes.append(failed(job, error, None, now))
        self.assertEqual(await self.record(*outcomes), [True] * 300)
        for number in (0, 1, 128, 200, 255, 257, 297, 299):
            found = await self.read(jobs[number])
            if number % 3:
                self.assertEqual(found.result, bytes([number % 256]) * number)
            else:
                self.assertEqual(found.last_error, f"ValueError: no {number}")
        counts = await self.store.counts_by_status()
        self.assertEqual((counts["success"], counts["failed"]), (200, 100))

    async def test_an_outcome_no_store_takes_fails_alone(self) -> None:
        """Data the store refuses is named in the answer; the rest of the group lands, and the claim is made."""
        for text in ("half a surrogate pair: \ud800", "a NUL: before\x00after"):
            jobs = [await self.running() for _ in range(3)]
            sent = await self.put()
            now = self.clock.now()
            error = ExecutionError(error_type="ValueError", message=text, traceback=text)
            first, last = succeeded(jobs[0], b"0", now), succeeded(jobs[2], b"2", now)
            recorded = await self.store.record([first, failed(jobs[1], error, None, now), last], self.request())
            self.assertEqual([recorded.applied[0], recorded.applied[2]], [True, True])
            self.assertNotEqual(recorded.applied[1], 1 in recorded.refused, "either applied or refused")
            self.assertLessEqual(set(recorded.refused), {1})
            assert recorded.claimed is not None
            self.assert_ids(recorded.claimed.jobs, [sent])
            if recorded.applied[1]:
                self.assertEqual((await self.read(jobs[1])).last_error, f"ValueError: {text}")
            else:
                await self.assert_untouched(jobs[1], "a refused outcome")
                self.assertTrue(await self.fail_job(jobs[1]), "told in words the store takes, it lands")
            await self.assert_attempts(jobs[1], (1, 1, ExecutionStatus.FAILED))
            await self.complete(recorded.claimed.jobs[0])

    async def test_an_outcome_is_seen_whole(self) -> None:
        """Whoever sees that a job has ended finds that attempt in its history, also while a group is being written."""
        jobs = {job.id: job for job in [await self.running() for _ in range(8)]}
        other = (await self.clients(2))[1]
        unseen = set(jobs)

        async def look() -> None:
            while unseen:
                for job_id in sorted(unseen):
                    found = await other.get(job_id)
                    if found is not None and found.status.is_final:
                        unseen.discard(job_id)
                        history = [entry.claim for entry in await other.executions(job_id)]
                        self.assertEqual(history, [1], "a job that has ended lacks the attempt that it ended with")
                await asyncio.sleep(0)

        async def write() -> None:
            now = self.clock.now()
            await self.record(*(succeeded(job, job.id.encode(), now) for job in jobs.values()))

        looking = asyncio.create_task(look())
        try:
            await write()
            await looking
        finally:
            looking.cancel()

    async def test_racing_groups(self) -> None:
        """Groups that overlap, written at once by several clients: every claim is ended once."""
        clients = await self.clients(3)
        for _ in range(self.rounds):
            await self.store.enqueue_many([self.job() for _ in range(24)])
            jobs = await self.take(24)
            parts = (jobs[:16], jobs[8:][::-1], jobs[::2])

            async def write(place: int, part: list[Job]) -> list[tuple[str, bool]]:
                now = self.clock.now()
                applied = await self.record(*(succeeded(job, b"%d" % place, now) for job in part), by=clients[place])
                return list(zip((job.id for job in part), applied, strict=True))

            answers = await self.race(*(write(place, part) for place, part in enumerate(parts)))
            won = {job_id: place for place, answer in enumerate(answers) for job_id, applied in answer if applied}
            self.assertEqual(sum(applied for answer in answers for _, applied in answer), 24)
            found = await asyncio.gather(*(self.read(job) for job in jobs))
            self.assertEqual({job.id: int(job.result or b"-1") for job in found}, won)

    async def test_recording_and_claiming_at_once(self) -> None:
        """Workers that record and claim in one call, at the same moment, share what is ready and lose nothing."""
        clients = await self.clients()
        sent = await self.store.enqueue_many([self.job() for _ in range(60)])
        seen: list[str] = []

        async def work(place: int) -> None:
            ended: list[Outcome] = []
            while True:
                recorded = await clients[place].record(ended, self.request(3, worker=f"worker-{place}"))
                self.assertEqual(recorded.applied, [True] * len(ended))
                assert recorded.claimed is not None
                if not recorded.claimed.jobs:
                    return
                seen.extend(job.id for job in recorded.claimed.jobs)
                ended = [succeeded(job, None, self.clock.now()) for job in recorded.claimed.jobs]

        await self.race(*(work(place) for place in range(self.racers)))
        self.assertEqual(sorted(seen), [job.id for job in sent])
        self.assertEqual((await self.store.counts_by_status())["success"], 60)
