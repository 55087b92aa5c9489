"""Deduplication keys: one active job per key, held for as long as it is active and free the moment it is not."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import chain

from tinyjobs.core.job import Job
from tinyjobs.core.status import JobStatus
from tinyjobs.testing.contract.case import ContractCase, needs

KEY = "invoice:7"


class Keys(ContractCase):
    """For stores that declare `dedup`."""

    @needs("dedup")
    async def test_a_held_key_answers_with_its_holder(self) -> None:
        """The second enqueue gives the job that is there, marked as such and as it stands, and keeps nothing."""
        first = await self.put(key=KEY, payload=b"1")
        self.assertFalse(first.existing)
        second = await self.put(key=KEY, payload=b"2", queue="elsewhere", task="shop.tasks.other")
        self.assertEqual((second.id, second.existing, second.payload), (first.id, True, b"1"))
        running = await self.one(self.take(9))
        third = await self.put(key=KEY)
        self.assertEqual((third.id, third.existing, third.status), (first.id, True, JobStatus.RUNNING))
        self.assertEqual(third.worker_id, running.worker_id)
        self.assertFalse((await self.read(first)).existing, "only the answer of an enqueue is marked")

    @needs("dedup")
    async def test_other_keys_are_other_jobs(self) -> None:
        """Keys are compared whole and as they are; jobs without one never meet."""
        keys = [KEY, KEY.upper(), KEY + " ", "invoice:70", None, None]
        sent = [await self.put(key=key) for key in keys]
        self.assertEqual(len({job.id for job in sent}), len(keys))
        self.assertFalse(any(job.existing for job in sent))

    @needs("dedup")
    async def test_a_key_is_free_after_every_end(self) -> None:
        """Success, final failure, cancelling (queued or running) and a worker lost for good all let go of it."""

        async def lose(job: Job) -> None:
            self.clock.advance(61)
            self.assertEqual([lost.status for lost in await self.store.reap_expired()], [JobStatus.FAILED])

        async def cancel(job: Job) -> None:
            self.assertTrue(await self.store.cancel(job.id))

        endings: list[Callable[[Job], Awaitable[object]]] = [self.complete, self.fail_job, cancel, lose]
        for ending in endings:
            job = await self.running(key=KEY, max_attempts=1)
            await ending(job)
            again = await self.put(key=KEY)
            self.assertFalse(again.existing)
            self.assertTrue(await self.store.cancel(again.id), "while it is queued")
        self.assertFalse((await self.put(key=KEY)).existing)

    @needs("dedup")
    async def test_a_key_is_held_until_the_job_has_ended(self) -> None:
        """Between attempts, after a release and after a hand-back the job is still there."""
        job = await self.running(key=KEY)

        async def fail_for_now(claimed: Job) -> bool:
            return await self.fail_job(claimed, retry_at=self.clock.now())

        for give_back in (fail_for_now, self.release, self.hand_back):
            self.assertTrue(await give_back(job))
            again = await self.put(key=KEY)
            self.assertEqual((again.id, again.existing), (job.id, True))
            job = await self.one(self.take())
        self.assertTrue(await self.complete(job), "a job never stands in its own way")

    @needs("dedup")
    async def test_an_ended_job_still_shows_its_key(self) -> None:
        """Letting go of a key does not forget which one it was."""
        job = await self.running(key=KEY)
        await self.complete(job)
        self.assertEqual((await self.read(job)).key, KEY)

    @needs("dedup")
    async def test_a_bulk_meets_a_held_key(self) -> None:
        """The holder stands in the place of the job that was not kept; the rest is."""
        holder = await self.put(key=KEY)
        bulk = [self.job(), self.job(key=KEY), self.job(key="invoice:8"), self.job()]
        kept = await self.store.enqueue_many(bulk)
        self.assert_ids(kept, [bulk[0], holder, bulk[2], bulk[3]])
        self.assertEqual([job.existing for job in kept], [False, True, False, False])
        self.assertIsNone(await self.store.get(bulk[1].id))
        self.assertEqual((await self.store.counts_by_status())["queued"], 4)

    @needs("dedup")
    async def test_one_key_twice_in_a_bulk(self) -> None:
        """The first of them is kept and stands in both places."""
        bulk = [self.job(key=KEY), self.job(), self.job(key=KEY), self.job(key="b"), self.job(key="b")]
        kept = await self.store.enqueue_many(bulk)
        self.assert_ids(kept, [bulk[0], bulk[1], bulk[0], bulk[3], bulk[3]])
        self.assertEqual([job.existing for job in kept], [False, False, True, False, True])
        self.assertEqual((await self.store.counts_by_status())["queued"], 3)

    @needs("dedup")
    async def test_a_key_that_looks_like_an_id(self) -> None:
        """A key never meets a job's id, inside a bulk or out of it."""
        plain = self.job()
        keyed = self.job(key=plain.id)
        self.assert_ids(await self.store.enqueue_many([plain, keyed]), [plain, keyed])
        self.assertEqual((await self.store.counts_by_status())["queued"], 2)

    @needs("dedup")
    async def test_retrying_by_hand_needs_the_key(self) -> None:
        """A job whose key another one holds by now stays ended; it may come back when the key is free."""
        job = await self.running(key=KEY)
        await self.fail_job(job)
        before = await self.read(job)
        other = await self.put(key=KEY)
        self.assertFalse(await self.store.requeue(job.id))
        await self.assert_untouched(before, "a refused retry")
        await self.store.cancel(other.id)
        self.assertTrue(await self.store.requeue(job.id))
        again = await self.put(key=KEY)
        self.assertEqual((again.id, again.existing), (job.id, True))

    @needs("dedup")
    async def test_racing_enqueues_of_one_key(self) -> None:
        """One job is kept; every caller is answered with it, and all but one know that it was there."""
        clients = await self.clients()
        for number in range(self.rounds):
            calls = [client.enqueue(self.job(key=f"{KEY}:{number}")) for client in clients * 3]
            answers = await self.race(*calls)
            self.assertEqual(len({job.id for job in answers}), 1)
            self.assertEqual([job.existing for job in answers].count(False), 1)
            self.assert_ids(await self.take(9), answers[:1])

    @needs("dedup")
    async def test_racing_bulks_of_the_same_keys(self) -> None:
        """Bulks that want the same keys in different orders neither block each other nor keep a key twice."""
        clients = await self.clients()
        for number in range(self.rounds):
            keys = [f"{number}:{key}" for key in range(12)]
            orders = [keys, keys[::-1], keys[6:] + keys[:6], keys[::2] + keys[1::2]]
            calls = [
                client.enqueue_many([self.job(key=key) for key in order])
                for client, order in zip(clients, orders, strict=False)
            ]
            answers = await asyncio.wait_for(self.race(*calls), 60)
            holders = {(job.key, job.id) for job in chain(*answers)}
            self.assertEqual(len(holders), 12)
            self.assertEqual([job.existing for job in chain(*answers)].count(False), 12)
            self.assertEqual(len(await self.take(50)), 12)

    @needs("dedup")
    async def test_racing_an_enqueue_with_the_end_of_the_holder(self) -> None:
        """The caller gets the holder or a job of its own, never an error and never nothing."""
        clients = await self.clients(2)
        for _ in range(self.rounds * 2):
            job = await self.running(key=KEY)

            async def send() -> Job:
                return await clients[0].enqueue(self.job(key=KEY))

            async def end(job: Job = job) -> Job:
                self.assertTrue(await self.complete(job, by=clients[-1]))
                return job

            mine, _ = await self.race(send(), end())
            self.assertEqual(mine.existing, mine.id == job.id)
            follower = await self.put(key=KEY)
            self.assertEqual(follower.existing, not mine.existing)
            await self.store.cancel(follower.id)

    @needs("dedup")
    async def test_racing_a_retry_by_hand_with_an_enqueue(self) -> None:
        """Only one of them gets the key."""
        clients = await self.clients(2)
        for _ in range(self.rounds * 2):
            old = await self.running(key=KEY)
            await self.fail_job(old)

            async def retry(job_id: str = old.id) -> bool:
                return await clients[0].requeue(job_id)

            async def send() -> bool:
                return not (await clients[-1].enqueue(self.job(key=KEY))).existing

            retried, sent = await self.race(retry(), send())
            self.assertNotEqual(retried, sent)
            active = await self.one(self.take(9))
            self.assertEqual(active.id == old.id, retried)
            await self.complete(active)
