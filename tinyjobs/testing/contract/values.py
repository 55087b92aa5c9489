"""Values: what is put into a store comes out again the same, to the last bit, whatever it looks like."""

from tinyjobs.core.job import Room
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import ExecutionError
from tinyjobs.testing.contract.case import ContractCase, needs

BLOBS = {
    "empty": b"",
    "JSON": b'{"total": 12.5}',
    "NUL in text": b"before\x00after",
    "NULs alone": b"\x00" * 40,
    "not UTF-8": b"\x80\x04\x95\xff\xfe",
    "every byte": bytes(range(256)),
    "UTF-8": "Größe 12 µm, 日本語, 🦊".encode(),
    "surrogates in UTF-8": b"\xed\xa0\x80",
    "quotes and escapes": b"\\u0000 ' \" \\ %s %% ? :name $1 {prefix}",
    "a number": b"12",
    "null": b"null",
}
TEXTS = {
    "quotes": 'it\'s "so" \\ `then`',
    "placeholders": "100 % of %s, ?, :name, $1, {prefix}, {}",
    "other scripts": "naïve Straße, Ελλάδα, עברית, 日本語, 🦊🏳️‍🌈",
    "lines": "first\nsecond\r\nthird\ttab",
    "control characters": "bell\x07, escape\x1b, delete\x7f",
    "spelled out": "\\x00 and \\ud800",
    "looks like JSON": '{"a": [1, null, "b"]}',
    "looks like a number": "0012",
    "edges": "  blanks at both ends  ",
    "combining": "é is not é",
}
#: Queue names of 43 to 255 bytes and characters, and those that a statement or a key pattern could trip over.
QUEUES = [
    *("q" * length for length in (43, 57, 58, 63, 64, 128, 255)),
    "é" * 32,
    "日" * 255,
    "with blanks inside",
    'it\'s "quoted"',
    "a:b::c",
    "{curly}",
    "100%s",
    "_under%score_",
    "back\\slash",
    "null",
    "🦊",
    "עברית",
    "DEFAULT",
]


class Values(ContractCase):
    """Payloads, results, texts, names and numbers at their limits."""

    async def test_payloads(self) -> None:
        """Bytes are bytes; an empty payload is one too."""
        sent = {name: await self.put(payload=blob) for name, blob in BLOBS.items()}
        many = await self.store.enqueue_many([self.job(payload=blob) for blob in BLOBS.values()])
        for (name, blob), bulk in zip(BLOBS.items(), many, strict=True):
            self.assertEqual((await self.read(sent[name])).payload, blob, name)
            self.assertEqual((await self.read(bulk)).payload, blob, name)
        taken = await self.take(len(BLOBS))
        self.assertEqual([job.payload for job in taken], list(BLOBS.values()))

    async def test_results(self) -> None:
        """A result comes back byte for byte, recorded alone or in a group of very different ones."""
        for name, blob in BLOBS.items():
            job = await self.running()
            self.assertTrue(await self.complete(job, blob))
            self.assertEqual((await self.read(job)).result, blob, name)

    async def test_large_values(self) -> None:
        """A megabyte of payload and of result."""
        size = min(self.store.capabilities.max_payload_bytes or 2**20, 2**20)
        job = await self.running(payload=b"\x00p\xff" * (size // 3))
        self.assertEqual(job.payload, b"\x00p\xff" * (size // 3))
        self.assertTrue(await self.complete(job, b"r" * size))
        self.assertEqual((await self.read(job)).result, b"r" * size)

    async def test_errors(self) -> None:
        """Error texts come back as they were told, in the job and in its history."""
        for name, text in TEXTS.items():
            job = await self.running()
            error = ExecutionError(error_type="shop.errors.Größe", message=text, traceback=text * 50)
            self.assertTrue(await self.fail_job(job, error=error))
            self.assertEqual((await self.read(job)).last_error, f"Größe: {text}", name)
            (entry,) = await self.store.executions(job.id)
            self.assertEqual((entry.error_type, entry.traceback), ("shop.errors.Größe", text * 50), name)

    async def test_metadata_and_worker_names(self) -> None:
        """Texts beside the payload are kept as they are."""
        for name, text in TEXTS.items():
            sent = await self.put(metadata=text)
            job = await self.one(self.take(worker=text))
            self.assertEqual((job.id, job.metadata, job.worker_id), (sent.id, text, text), name)
            await self.complete(job)
            (entry,) = await self.store.executions(job.id)
            self.assertEqual(entry.worker_id, text, name)

    async def test_queue_names(self) -> None:
        """Every name is a queue of its own, when claiming, listing and counting, alone and among others."""
        sent = {name: await self.put(queue=name) for name in QUEUES}
        self.assertEqual({queue.name for queue in (await self.store.stats()).queues}, set(QUEUES))
        for name in QUEUES[1::2]:
            self.assert_ids((await self.store.list(queue=name)).jobs, [sent[name]], name)
            job = await self.one(self.take(9, queues=(name,)))
            self.assertEqual((job.id, job.queue), (sent[name].id, name))
        rest = QUEUES[::2]
        self.assert_ids(await self.take(99, queues=QUEUES), [sent[name] for name in rest])

    async def test_task_names(self) -> None:
        """A task may be called what a statement could trip over, also in a room and in the figures."""
        names = ["x" * 255, *TEXTS.values()]
        sent = [await self.put(task=name) for name in names]
        self.assertEqual(dict((await self.store.stats()).queued_by_task), dict.fromkeys(names, 1))
        for name, job in zip(names, sent, strict=True):
            self.assert_ids((await self.store.list(task=name)).jobs, [job], name)
        self.assertEqual(await self.take(99, room=Room(frozenset(names), 0)), [])
        self.assert_ids(await self.take(99, room=Room(frozenset(names[1:]), 0)), sent[:1])

    @needs("dedup")
    async def test_keys(self) -> None:
        """A key may hold any text, up to a thousand characters."""
        for text in [*TEXTS.values(), "k" * 1024, "日" * 1024]:
            first = await self.put(key=text)
            self.assertEqual((first.existing, first.key), (False, text))
            second, third = await self.put(key=text), await self.store.enqueue_many([self.job(key=text)])
            self.assertEqual([(job.id, job.existing) for job in (second, *third)], [(first.id, True)] * 2)

    @needs("priority")
    async def test_priorities(self) -> None:
        """Whole numbers of 32 bits, the larger first, in one direction to both ends."""
        priorities = [0, 2**31 - 1, -(2**31), 101, -101, 100, -100, 1, -1]
        sent = {priority: await self.put(priority=priority) for priority in priorities}
        expected = [sent[priority] for priority in sorted(priorities, reverse=True)]
        self.assertEqual([(await self.read(job)).priority for job in expected], sorted(priorities, reverse=True))
        self.assert_ids(await self.take(99), expected)

    async def test_many_attempts(self) -> None:
        """The largest number of attempts there is."""
        job = await self.running(max_attempts=2**31 - 1)
        self.assertEqual((await self.read(job)).max_attempts, 2**31 - 1)
        self.clock.advance(61)
        self.assertEqual([lost.status for lost in await self.store.reap_expired()], [JobStatus.QUEUED])

    @needs("delayed")
    async def test_instants(self) -> None:
        """Instants come back to the last bit, from the epoch to the year 9998, and are compared exactly."""
        start = self.clock.now()
        instants = [0.0, start - 0.1, start + 0.1, start + 1 / 3, start + 1e-6, 253_370_764_799.0]
        for instant in instants:
            job = await self.put(run_at=instant, created_at=start + 0.7)
            found = await self.read(job)
            self.assertEqual((found.run_at, found.created_at), (instant, start + 0.7))
            await self.store.cancel(job.id)
        for number in range(200):
            self.clock.advance(0.1 + number / 997)
            job = await self.running()
            retry_at = self.clock.now() + number / 7 + 1e-6
            await self.fail_job(job, retry_at=retry_at)
            self.assertEqual((await self.read(job)).run_at, retry_at)
            self.assertEqual((await self.claim()).next_due, retry_at)
            (entry,) = await self.store.executions(job.id)
            self.assertEqual(entry.finished_at, self.clock.now())
            await self.store.cancel(job.id)
