"""Producing: what an enqueue keeps, and that many jobs are kept together or not at all."""

from dataclasses import replace
from itertools import chain

from tinyjobs.core.status import JobStatus
from tinyjobs.testing.contract.case import ContractCase


class Producing(ContractCase):
    """`enqueue` and `enqueue_many`, without keys."""

    async def test_a_job_is_kept_whole(self) -> None:
        """The answer is the job that was given, and reading it gives the same."""
        job = self.job(
            task="shop.tasks.invoice",
            queue="documents",
            priority=-3,
            max_attempts=5,
            run_at=self.clock.now() + 12.375,
            payload=b'{"order": 1}',
            codec="pickle",
            metadata='{"source": "checkout"}',
        )
        self.assertEqual(await self.store.enqueue(job), job)
        self.assertEqual(await self.read(job), job)

    async def test_an_unknown_job(self) -> None:
        """Reading what is not there is no error."""
        self.assertIsNone(await self.store.get(self.job().id))
        self.assertEqual(await self.store.executions(self.job().id), [])

    async def test_every_client_sees_it(self) -> None:
        """A job is there for every client as soon as the enqueue has answered."""
        for client in await self.clients():
            sent = await self.put()
            found = await client.get(sent.id)
            self.assertEqual(found, sent)
            taken = await self.one(self.take(by=client))
            self.assertEqual(await self.read(sent), taken)

    async def test_many_are_kept_in_order(self) -> None:
        """The answers stand where their jobs stood."""
        jobs = [self.job(priority=number % 4, payload=b"%d" % number) for number in range(50)]
        self.assertEqual(await self.store.enqueue_many(jobs), jobs)
        self.assertEqual([await self.read(job) for job in jobs[::7]], jobs[::7])
        self.assertEqual(await self.store.enqueue_many([]), [])
        self.assertEqual((await self.store.counts_by_status())["queued"], 50)

    async def test_very_many(self) -> None:
        """A bulk of thousands is one call."""
        jobs = [self.job() for _ in range(6_000)]
        kept = await self.store.enqueue_many(jobs)
        self.assert_ids(kept, jobs)
        self.assertEqual((await self.store.counts_by_status())["queued"], 6_000)

    async def test_all_or_none(self) -> None:
        """When one job of a bulk cannot be kept, none of it is."""
        there = await self.put()
        bulk = [self.job(), replace(self.job(), id=there.id, payload=b"other"), self.job()]
        with self.assertRaises(Exception):  # noqa: B017 - which error it is the store decides
            await self.store.enqueue_many(bulk)
        self.assertIsNone(await self.store.get(bulk[0].id))
        self.assertIsNone(await self.store.get(bulk[2].id))
        self.assertEqual(await self.read(there), there)
        self.assert_ids(await self.take(9), [there])

    async def test_an_id_is_never_taken_twice(self) -> None:
        """A job under an id that is taken is refused, and the job that is there stays as it is."""
        there = await self.running()
        with self.assertRaises(Exception):  # noqa: B017
            await self.store.enqueue(replace(self.job(), id=there.id))
        await self.assert_untouched(there, "an enqueue under the same id")

    async def test_a_failed_enqueue_leaves_the_store_usable(self) -> None:
        """After a refusal the same client goes on as if nothing had happened."""
        there = await self.put()
        with self.assertRaises(Exception):  # noqa: B017
            await self.store.enqueue(there)
        sent = await self.put()
        await self.assert_status(sent, JobStatus.QUEUED)
        self.assert_ids(await self.take(9), [there, sent])

    async def test_enqueuing_and_claiming_at_once(self) -> None:
        """Producers and workers on the same store at the same moment: every job is taken once."""
        clients = await self.clients()
        bulks = [[self.job() for _ in range(15)] for _ in clients]
        taken = []

        async def produce(place: int) -> None:
            for job in bulks[place][:5]:
                await clients[place].enqueue(job)
            await clients[place].enqueue_many(bulks[place][5:])

        async def consume(place: int) -> None:
            for _ in range(5):
                taken.extend(await self.take(4, by=clients[place]))

        half = self.racers // 2
        await self.race(
            *(produce(place) for place in range(half)),
            *(consume(place) for place in range(half, self.racers)),
        )
        taken.extend(await self.take(100))
        self.assertEqual(sorted(job.id for job in taken), sorted(job.id for job in chain(*bulks[:half])))
        self.assertEqual({job.claims for job in taken}, {1})
