"""Listing: pages of jobs, newest first, that hold their place while jobs come and go."""

from collections.abc import Sequence
from itertools import product

from tinyjobs.core.job import Job
from tinyjobs.core.status import JobStatus
from tinyjobs.testing.contract.case import ContractCase, needs


class Listing(ContractCase):
    """`list`, with and without filters."""

    async def test_newest_first(self) -> None:
        """Jobs come in the reverse order of their making, also those made in the same instant."""
        sent = [await self.put() for _ in range(3)]
        self.clock.advance(1)
        sent += [await self.put(priority=9), await self.put(queue="other")]
        page = await self.store.list()
        self.assert_ids(page.jobs, sent[::-1])
        self.assertIsNone(page.cursor)

    async def test_an_empty_store(self) -> None:
        """A page of nothing, for every filter."""
        for status in (None, *JobStatus):
            page = await self.store.list(status=status)
            self.assertEqual((page.jobs, page.cursor), ([], None))
        self.assertEqual((await self.store.list(queue="mail", task="shop.tasks.pack")).jobs, [])

    async def test_large_columns_stay_in_the_store(self) -> None:
        """A listing carries everything about a job but its payload and result."""
        job = await self.running(payload=b"x" * 1_000, metadata='{"a": 1}', key=None)
        await self.complete(job, b"y" * 1_000)
        whole = await self.read(job)
        for filters in ({}, {"status": JobStatus.SUCCESS}, {"queue": "default"}, {"task": job.task}):
            listed = await self.one(self._pages(**filters))
            self.assertEqual((listed.payload, listed.result), (None, None))
            for name in (
                "id",
                "task",
                "status",
                "attempts",
                "claims",
                "run_at",
                "finished_at",
                "metadata",
                "worker_id",
            ):
                self.assertEqual(getattr(listed, name), getattr(whole, name), name)

    async def test_pages(self) -> None:
        """Following the cursor gives every job once, in order, whatever the size of a page."""
        sent = await self.store.enqueue_many([self.job() for _ in range(23)])
        for size in (1, 5, 22, 23, 24):
            self.assert_ids(await self._pages(limit=size), sent[::-1])
        first = await self.store.list(limit=23)
        self.assertIsNone(first.cursor, "a page that holds all of them has none after it")

    async def test_pages_hold_their_place(self) -> None:
        """Jobs sent or ended between two pages neither repeat a job nor hide one."""
        sent = [await self.put() for _ in range(10)]
        first = await self.store.list(limit=4)
        self.clock.advance(1)
        await self.put()
        await self.complete(await self.one(self.take()))
        second = await self.store.list(limit=4, cursor=first.cursor)
        third = await self.store.list(limit=4, cursor=second.cursor)
        self.assert_ids([*first.jobs, *second.jobs, *third.jobs], sent[::-1])
        self.assertIsNone(third.cursor)

    async def test_by_status(self) -> None:
        """Every status lists its own jobs; a delayed one and one between attempts count as queued."""
        done, broken, stopped = await self.running(), await self.running(), await self.running()
        await self.complete(done)
        await self.fail_job(broken)
        await self.store.cancel(stopped.id)
        queued = []
        if self.store.capabilities.delayed:
            queued.append(await self.running())
            await self.fail_job(queued[0], retry_at=self.clock.now() + 60)
            queued.append(await self.put(run_at=self.clock.now() + 60))
        active = await self.running()
        queued += [await self.put(), await self.put()]
        expected = {
            JobStatus.SUCCESS: [done],
            JobStatus.FAILED: [broken],
            JobStatus.CANCELLED: [stopped],
            JobStatus.RUNNING: [active],
            JobStatus.QUEUED: queued,
            JobStatus.HELD: [],
            JobStatus.WAITING: [],
        }
        for status, jobs in expected.items():
            newest_first = sorted(jobs, key=lambda job: job.id, reverse=True)
            for size in (100, 1):
                found = await self._pages(status=status, limit=size)
                self.assert_ids(found, newest_first, f"{status}, pages of {size}")
                self.assertEqual({job.status for job in found}, {status} if jobs else set())

    async def test_by_queue_and_task(self) -> None:
        """Each filter alone, and together with the others."""
        sent = []
        for number in range(24):
            sent.append(await self.put(queue=("mail", "reports")[number % 2], task=f"shop.tasks.{'abc'[number % 3]}"))
        done = await self.take(10)
        for job in done:
            await self.complete(job)
        ended = {job.id for job in done}
        queues, tasks = (None, "mail", "nobody"), (None, "shop.tasks.b", "shop.tasks.z")
        statuses = (None, JobStatus.SUCCESS, JobStatus.QUEUED, JobStatus.RUNNING)
        for queue, task, status in product(queues, tasks, statuses):
            expected = [
                job
                for job in reversed(sent)
                if queue in (None, job.queue)
                and task in (None, job.task)
                and status in (None, JobStatus.SUCCESS if job.id in ended else JobStatus.QUEUED)
            ]
            found = await self._pages(status=status, queue=queue, task=task, limit=3)
            self.assert_ids(found, expected, f"{status}, {queue}, {task}")

    @needs("delayed")
    async def test_a_delayed_job_stands_where_it_was_sent(self) -> None:
        """Its place in a listing is that of its making, not of its time."""
        first = await self.put()
        later = await self.put(run_at=self.clock.now() + 1_000)
        last = await self.put()
        self.assert_ids((await self.store.list(status=JobStatus.QUEUED)).jobs, [last, later, first])

    async def test_a_bounded_look(self) -> None:
        """No page looks at more jobs than it may: what is rare takes several pages, and nothing is lost between."""
        sent = [await self.put(task="shop.tasks.rare" if n % 10 == 3 else "shop.tasks.usual") for n in range(24)]
        rare = [job for job in reversed(sent) if job.task == "shop.tasks.rare"]
        first = await self.store.list(task="shop.tasks.rare", limit=5, scan=10)
        self.assert_ids(first.jobs, [job for job in rare if job in sent[-10:]])
        self.assertIsNotNone(first.cursor, "there is more to look at")
        for scan in (1, 4, 10, 23, 24, 25, 1_000):
            for limit in (1, 2, 100):
                found = await self._pages(task="shop.tasks.rare", limit=limit, scan=scan)
                self.assert_ids(found, rare, f"scan {scan}, limit {limit}")
        whole = await self.store.list(task="shop.tasks.rare", scan=24)
        self.assertIsNone(whole.cursor, "all of it was looked at")

    async def test_a_bounded_look_along_a_filter(self) -> None:
        """With every filter, alone and together, each job that fits comes once and in order."""
        sent = []
        for number in range(20):
            sent.append(
                await self.put(queue=("mail", "reports")[number % 2], task=f"shop.tasks.{'ab'[number % 4 > 1]}")
            )
        for number, job in enumerate(await self.take(12)):
            if number % 3 == 0:
                await self.fail_job(job)
            elif number % 3 == 1:
                await self.complete(job)
        now = {job.id: job for job in [await self.read(job) for job in sent]}
        statuses = (None, JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.HELD)
        for status, queue, task in product(statuses, (None, "mail", "nobody"), (None, "shop.tasks.b")):
            expected = [
                job
                for job in reversed(sent)
                if status in (None, now[job.id].status) and queue in (None, job.queue) and task in (None, job.task)
            ]
            for scan in (1, 3, 100):
                found = await self._pages(status=status, queue=queue, task=task, limit=2, scan=scan)
                self.assert_ids(found, expected, f"{status}, {queue}, {task}, scan {scan}")

    @needs("search")
    async def test_a_text(self) -> None:
        """Sought in ids, task names and arguments; letters of either case alike, and every character as it is."""
        arguments = [
            b'{"to": "Anna@Example.org"}',
            b'["100%", "a_b"]',
            'naïve "quoted" \\ path'.encode(),
            b"\xff\x00Ann\xfe",
        ]
        sent = [await self.put(payload=payload) for payload in arguments]
        sent.append(await self.put(task="shop.mail.ANNOUNCE", payload=b"{}"))
        ended = await self.one(self.take())
        await self.complete(ended)
        cases = {
            "anna@example": [0],
            "ANN": [4, 3, 0],
            "100%": [1],
            "%": [1],
            "a_b": [1],
            "a%b": [],
            "_": [1],
            "na\u00efve": [2],
            '"quoted"': [2],
            "\\": [2],
            "shop.mail": [4],
            "shop.tasks.pack": [3, 2, 1, 0],
            "'": [],
            "nowhere": [],
        }
        for text, places in cases.items():
            found = await self._pages(text=text, limit=2)
            expected = [sent[place] for place in places]
            self.assert_ids(found, expected, repr(text))
        for text in ("\0", "\ud800"):
            self.assertLessEqual(len(await self._pages(text=text)), 1, "no text that is no text is refused")
        if not any("377" in job.id for job in sent):
            self.assertEqual(await self._pages(text="377"), [], "a byte is no text of its number")
        for named in (sent[2].id, sent[2].id[-12:].upper()):
            self.assert_ids(await self._pages(text=named), [sent[2]])
        self.assert_ids(await self._pages(text=""), sent[::-1])

    @needs("search")
    async def test_a_text_within_a_filter(self) -> None:
        """Together with a status, a queue, a task and a bound."""
        sent = []
        for number in range(12):
            place = {"queue": ("mail", "reports")[number % 2], "task": f"shop.tasks.{'abc'[number % 3]}"}
            sent.append(await self.put(**place, payload=b"order %d" % (number % 4)))
        for job in await self.take(6):
            await self.complete(job)
        for status, queue, task in product((None, JobStatus.SUCCESS), (None, "mail"), (None, "shop.tasks.b")):
            expected = [
                job
                for number, job in reversed([*enumerate(sent)])
                if number % 4 == 2
                and (status is None or number < 6)
                and queue in (None, job.queue)
                and task in (None, job.task)
            ]
            for scan in (None, 2, 5, 100):
                found = await self._pages(status=status, queue=queue, task=task, text="ORDER 2", limit=2, scan=scan)
                self.assert_ids(found, expected, f"{status}, {queue}, {task}, scan {scan}")

    @needs("search")
    async def test_listings_of_a_text_leave_large_columns_in_the_store(self) -> None:
        """They were looked at, and stay where they are."""
        await self.put(payload=b"found " + b"x" * 10_000)
        found = await self.one(self._pages(text="found"))
        self.assertEqual((found.payload, found.result), (None, None))

    async def _pages(
        self,
        *,
        status: JobStatus | None = None,
        queue: str | None = None,
        task: str | None = None,
        text: str | None = None,
        limit: int = 100,
        scan: int | None = None,
    ) -> Sequence[Job]:
        found: list[Job] = []
        cursor = None
        while True:
            page = await self.store.list(
                status=status, queue=queue, task=task, text=text, limit=limit, cursor=cursor, scan=scan
            )
            self.assertLessEqual(len(page.jobs), min(limit, scan or limit))
            found.extend(page.jobs)
            if page.cursor is None:
                return found
            if scan is None:
                self.assertEqual(len(page.jobs), limit, "only the last page may be short")
            self.assertTrue(cursor is None or page.cursor < cursor, "the next page begins further on")
            cursor = page.cursor
