"""Counts of jobs by status: exact through every verb, in whatever order, and in a race of all of them."""

import random
from collections import Counter

from tinyjobs.core.job import Job
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import failed, succeeded
from tinyjobs.testing.contract.case import ERROR, ContractCase


class Counts(ContractCase):
    """Counts by status, which a store may keep instead of counting: they hold whatever happens."""

    async def test_counts_hold_through_anything(self) -> None:
        """After each of many steps of every kind, against a count of what is listed."""
        walk = _Walk(self, random.Random(20_261_130))
        for number in range(160):
            name = await walk.step()
            if number % 8 == 0 or number > 150:
                await self.assert_counted(f"after {name}, step {number}")

    async def test_counts_hold_in_a_race(self) -> None:
        """Of all who end, retry and delete the same jobs at once, each change counts once."""
        stores = await self.clients()
        for _ in range(self.rounds):
            await self.store.enqueue_many([self.job(max_attempts=1) for _ in range(4)])
            jobs = await self.take(4)
            now = self.clock.now()
            await self.race(
                stores[0].record([succeeded(job, None, now) for job in jobs]),
                *(store.cancel(job.id) for store, job in zip(stores[1:], jobs, strict=False)),
            )
            await self.race(*(store.requeue(jobs[0].id) for store in stores))
            if self.store.capabilities.delete:
                await self.race(*(store.delete(jobs[n % 2].id) for n, store in enumerate(stores)))
            await self.assert_counted()

    async def assert_counted(self, message: str = "") -> None:
        """The counts are those of the jobs that are there."""
        there: Counter[str] = Counter()
        cursor = None
        while True:
            page = await self.store.list(limit=1_000, cursor=cursor)
            there.update(job.status.value for job in page.jobs)
            if (cursor := page.cursor) is None:
                break
        for counts in (await self.store.counts_by_status(), (await self.store.stats()).by_status):
            self.assertEqual({status: count for status, count in counts.items() if count}, dict(there), message)


class _Walk:
    """Steps drawn by chance from all that changes jobs, as far as the store declares it."""

    def __init__(self, case: ContractCase, chance: random.Random) -> None:
        self._case = case
        self._store = case.store
        self._chance = chance
        self._known: list[str] = []
        self._running: list[Job] = []
        can = case.store.capabilities
        # What ends or deletes jobs comes more rarely than what makes or takes them.
        self._steps = [self._enqueue, self._enqueue, self._claim, self._claim, self._record, self._record,
                       self._cancel, self._requeue, self._time]  # fmt: skip
        if can.delete:
            self._steps.append(self._delete)
        if can.retention:
            self._steps.append(self._purge)

    async def step(self) -> str:
        """Do one; its name."""
        step = self._chance.choice(self._steps)
        await step()
        return step.__name__.strip("_")

    def _any(self) -> str:
        return self._chance.choice(self._known) if self._known else "nobody"

    async def _enqueue(self) -> None:
        now = self._case.clock.now()
        can, draw = self._case.store.capabilities, self._chance.random
        jobs = [
            self._case.job(
                queue=self._chance.choice(("mail", "reports")),
                max_attempts=self._chance.choice((1, 3)),
                run_at=now + (30 if can.delayed and draw() < 0.2 else 0),
                key=self._chance.choice("abc") if can.dedup and draw() < 0.3 else None,
                expires_at=now + 40 if draw() < 0.2 else None,
            )
            for _ in range(self._chance.randint(1, 4))
        ]
        self._known += [job.id for job in await self._store.enqueue_many(jobs) if not job.existing]

    async def _claim(self) -> None:
        self._running += await self._case.take(self._chance.randint(1, 4), lease=self._chance.choice((20, 200)))

    async def _record(self) -> None:
        self._chance.shuffle(self._running)
        outcomes = []
        for job in self._running[:5]:
            now = self._case.clock.now()
            retry_at = self._chance.choice((None, now))
            outcomes.append(
                self._chance.choice(
                    (succeeded(job, None, now), succeeded(job, None, now), failed(job, ERROR, retry_at, now))
                )
            )
        del self._running[:4]  # one is told again, and is stale by then
        await self._store.record(outcomes)

    async def _cancel(self) -> None:
        await self._store.cancel(self._any())

    async def _requeue(self) -> None:
        for job in (await self._store.list(status=JobStatus.FAILED, limit=2)).jobs:
            await self._store.requeue(job.id)
        await self._store.requeue(self._any())

    async def _time(self) -> None:
        self._case.clock.advance(self._chance.choice((1, 10, 45)))
        await self._store.reap_expired()
        await self._store.end_unstarted()

    async def _delete(self) -> None:
        await self._store.delete(self._any())

    async def _purge(self) -> None:
        status = self._chance.choice((JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELLED))
        await self._store.purge(status, self._chance.choice((0, 20)), limit=self._chance.choice((1, 3)))
