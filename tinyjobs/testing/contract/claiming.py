"""Claiming: which jobs a claim may take, in which order, and that no job is ever in two hands."""

from itertools import chain

from tinyjobs.core.job import Job, Room
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.testing.contract.case import ContractCase, needs

THREAD = "shop.tasks.in_a_thread"
OTHER = "shop.tasks.coroutine"


class Claims(ContractCase):
    """What a claim takes and what it leaves alone."""

    async def test_a_claim_starts_the_job(self) -> None:
        """The answer is the job as it stands: running, attempt and claim counted, worker, start and lease set."""
        sent = await self.put(payload=b'{"order": 7}')
        self.clock.advance(5)
        job = await self.one(self.take(worker="host:1:a", lease=30))
        self.assertEqual((job.id, job.status, job.worker_id), (sent.id, JobStatus.RUNNING, "host:1:a"))
        self.assertEqual((job.attempts, job.claims, job.hand_backs), (1, 1, 0))
        self.assertEqual((job.started_at, job.lease_expires_at), (self.clock.now(), self.clock.now() + 30))
        self.assertEqual((job.payload, job.run_at), (b'{"order": 7}', sent.run_at))
        self.assertEqual(job, await self.read(job))

    async def test_a_running_job_is_not_claimed(self) -> None:
        """A second claim finds nothing, whoever asks."""
        await self.running()
        self.assertEqual(await self.take(worker="worker-1"), [])
        self.assertEqual(await self.take(worker="worker-2"), [])

    async def test_no_more_than_asked_for(self) -> None:
        """A claim takes its limit at most, and one of 0 takes nothing."""
        await self.store.enqueue_many([self.job() for _ in range(5)])
        self.assertEqual(await self.take(0), [])
        self.assertEqual([len(await self.take(2)) for _ in range(4)], [2, 2, 1, 0])

    async def test_ended_jobs_are_not_claimed(self) -> None:
        """A job that succeeded, failed or was cancelled stays where it is."""
        done, broken, stopped = await self.running(), await self.running(), await self.put()
        self.assertTrue(await self.complete(done))
        self.assertTrue(await self.fail_job(broken))
        self.assertTrue(await self.store.cancel(stopped.id))
        self.clock.advance(1_000_000)
        self.assertEqual(await self.take(10), [])

    @needs("delayed")
    async def test_no_job_before_its_time(self) -> None:
        """A delayed job is nobody's until its instant, and everybody's from then on."""
        later = await self.put(run_at=self.clock.now() + 60)
        self.assertEqual((later.status, await self.take()), (JobStatus.QUEUED, []))
        self.clock.advance(59.5)
        self.assertEqual(await self.take(), [])
        self.clock.advance(0.5)
        self.assert_ids(await self.take(), [later])

    @needs("delayed")
    async def test_delayed_jobs_do_not_stand_in_the_way(self) -> None:
        """Delayed jobs of a higher priority hide no ready one."""
        await self.store.enqueue_many([self.job(run_at=self.clock.now() + 60, priority=9) for _ in range(40)])
        ready = [await self.put(priority=-9), await self.put(priority=-9)]
        self.assert_ids(await self.take(10), ready)

    @needs("delayed")
    async def test_the_next_due_instant_is_told(self) -> None:
        """A claim that had room left says when the next delayed job comes due, also one that took nothing."""
        start = self.clock.now()
        self.assertIsNone((await self.claim()).next_due)
        await self.put(run_at=start + 60)
        soon = await self.put(run_at=start + 30.25)
        await self.put()
        answer = await self.claim(5)
        self.assertEqual((len(answer.jobs), answer.next_due), (1, soon.run_at))
        self.clock.advance(31)
        answer = await self.claim(5)
        self.assert_ids(answer.jobs, [soon])
        self.assertEqual(answer.next_due, start + 60)

    @needs("delayed")
    async def test_looking_takes_nothing(self) -> None:
        """`next_due` tells of ready and delayed jobs and leaves them where they are."""
        self.assertEqual(await self.store.next_due(), (False, None))
        later = await self.put(run_at=self.clock.now() + 60)
        self.assertEqual(await self.store.next_due(), (False, later.run_at))
        ready = await self.put()
        self.assertEqual(await self.store.next_due(), (True, later.run_at))
        self.assertEqual(await self.store.next_due(), (True, later.run_at))
        await self.assert_untouched(ready, "looking")
        await self.take()
        self.assertEqual(await self.store.next_due(), (False, later.run_at))

    @needs("delayed")
    async def test_looking_at_some_queues(self) -> None:
        """Readiness is told of the queues that are asked about, the next time of any."""
        await self.put(queue="mail")
        later = await self.put(queue="reports", run_at=self.clock.now() + 60)
        self.assertEqual(await self.store.next_due(["reports", "nobody"]), (False, later.run_at))
        self.assertEqual(await self.store.next_due(["reports", "mail"]), (True, later.run_at))
        self.assertEqual(await self.store.next_due([]), (True, later.run_at))
        self.assertEqual((await self.claim(5, queues=("reports",))).next_due, later.run_at)

    @needs("delayed")
    async def test_a_flood_of_due_jobs_arrives_whole(self) -> None:
        """Many jobs coming due at once are all handed out, each once, however many one claim lets in."""
        start = self.clock.now()
        sent = await self.store.enqueue_many([self.job(run_at=start + 1 + number / 8) for number in range(1_200)])
        self.clock.advance(1_000)
        taken: list[Job] = []
        while batch := await self.take(250):
            taken.extend(batch)
        self.assert_ids(taken, sent, "the oldest are let in first")

    async def test_the_room_of_some_tasks_is_kept(self) -> None:
        """Of the tasks in a room no more are taken than it has space for; the others fill the rest of the claim."""
        bound = [await self.put(task=THREAD) for _ in range(4)]
        free = [await self.put(task=OTHER) for _ in range(3)]
        room = Room(frozenset({THREAD}), 1)
        self.assert_ids(await self.take(3, room=room), [bound[0], *free[:2]])
        self.assert_ids(await self.take(3, room=Room(frozenset({THREAD}), 0)), free[2:])
        self.assert_ids(await self.take(2, room=Room(frozenset({THREAD}), 5)), bound[1:3])
        self.assert_ids(await self.take(2, room=Room(frozenset({OTHER}), 0)), bound[3:])

    async def test_a_full_room_hides_no_other_job(self) -> None:
        """A claim reads past jobs it has no room for, across queues, and takes the first of the others."""
        await self.store.enqueue_many(
            [self.job(task=THREAD, priority=5, queue=queue) for queue in ("a", "b") for _ in range(30)]
        )
        free = [await self.put(task=OTHER, queue=queue) for queue in ("b", "a")]
        room = Room(frozenset({THREAD, "shop.tasks.unheard_of"}), 0)
        self.assert_ids(await self.take(5, room=room, queues=("a", "b")), free)

    async def test_a_room_is_shared_by_its_tasks(self) -> None:
        """The space of a room counts all of its tasks together, in queue order."""
        tasks = (THREAD, OTHER, THREAD, OTHER)
        sent = [await self.put(task=task, priority=priority) for priority, task in enumerate(tasks)]
        self.assert_ids(await self.take(4, room=Room(frozenset(tasks), 3)), sent[:0:-1])

    async def test_one_job_by_its_id(self) -> None:
        """`claim_job` takes that very job and no other, as a claim would."""
        await self.put()
        wanted = await self.put(priority=-1, queue="elsewhere")
        job = await self.store.claim_job(wanted.id, worker_id="me", lease=10)
        assert job is not None
        self.assertEqual((job.id, job.status, job.worker_id, job.claims), (wanted.id, JobStatus.RUNNING, "me", 1))
        self.assertEqual(job.lease_expires_at, self.clock.now() + 10)
        self.assertEqual(job, await self.read(job))
        self.assertTrue(await self.complete(job))

    async def test_claim_job_leaves_the_others_alone(self) -> None:
        """A job that runs, has ended or is not there is not claimed by its id either."""
        held, ended, stopped = await self.running(), await self.running(), await self.put()
        await self.complete(ended)
        await self.store.cancel(stopped.id)
        for job_id in (held.id, ended.id, stopped.id, self.job().id, "no such id"):
            self.assertIsNone(await self.store.claim_job(job_id, worker_id="me", lease=10))
        await self.assert_attempts(held, (1, 1, ExecutionStatus.RUNNING))

    @needs("delayed")
    async def test_claim_job_respects_the_time(self) -> None:
        """A delayed job is refused before its instant and taken at it, let in or not."""
        later = await self.put(run_at=self.clock.now() + 60)
        self.assertIsNone(await self.store.claim_job(later.id, worker_id="me", lease=10))
        self.clock.advance(60)
        self.assertIsNotNone(await self.store.claim_job(later.id, worker_id="me", lease=10))
        self.assertEqual((await self.take(), await self.store.next_due()), ([], (False, None)))

    async def test_racing_claims_share_the_jobs(self) -> None:
        """Claims made at the same moment never hand the same job out twice, and lose none."""
        clients = await self.clients()
        for _ in range(self.rounds):
            sent = await self.store.enqueue_many([self.job() for _ in range(20)])
            answers = await self.race(*(self.take(7, by=client) for client in clients))
            taken = [*chain(*answers), *await self.take(20)]
            self.assertEqual(sorted(job.id for job in taken), [job.id for job in sent])
            self.assertEqual({job.claims for job in taken}, {1})
            self.assertTrue(all(await self.record_all(taken)))

    async def test_racing_for_the_last_job(self) -> None:
        """One job and many claims: one takes it."""
        clients = await self.clients()
        for _ in range(self.rounds):
            sent = await self.put()
            answers = await self.race(*(self.take(by=client) for client in clients))
            taken = [*chain(*answers)] or await self.take()
            self.assert_ids(taken, [sent])
            self.assertTrue(await self.complete(taken[0]))

    async def test_racing_a_claim_by_id(self) -> None:
        """A plain claim and claims by id that meet: one of them has the job."""
        clients = await self.clients()
        for _ in range(self.rounds):
            sent = await self.put()

            async def by_id(place: int, job_id: str = sent.id) -> list[Job]:
                job = await clients[place].claim_job(job_id, worker_id=f"w{place}", lease=60)
                return [job] if job else []

            answers = await self.race(by_id(0), by_id(1), self.take(3, by=clients[-1]))
            taken = [*chain(*answers)] or await self.take()
            self.assert_ids(taken, [sent])
            self.assertEqual(taken[0], await self.read(sent))
            self.assertTrue(await self.complete(taken[0]))

    async def record_all(self, jobs: list[Job]) -> list[bool]:
        """Report success for all of them, one after another."""
        return [await self.complete(job) for job in jobs]


class ClaimOrder(ContractCase):
    """Priority, then age, over any choice of queues."""

    async def test_only_the_queues_asked_for(self) -> None:
        """A list of names is served and nothing else; without one every queue is."""
        jobs = {name: await self.put(queue=name) for name in ("mail", "reports", "default", "mail2")}
        self.assertEqual(await self.take(9, queues=("nobody",)), [])
        self.assert_ids(await self.take(9, queues=("mail",)), [jobs["mail"]])
        self.assert_ids(await self.take(9, queues=("default", "reports", "nobody")), [jobs["reports"], jobs["default"]])
        self.assert_ids(await self.take(9), [jobs["mail2"]])

    async def test_a_queue_named_twice_is_one_queue(self) -> None:
        """Repeating a name gives no job twice and loses none."""
        sent = [await self.put(queue="mail") for _ in range(3)]
        self.assert_ids(await self.take(5, queues=("mail", "mail")), sent)

    @needs("priority")
    async def test_the_order_of_one_queue(self) -> None:
        """The larger number first; among equals the one that waits longest."""
        sent = {priority: await self.put(priority=priority) for priority in (0, -5, 10, 5)}
        second = await self.put(priority=10)
        expected = [sent[10], second, sent[5], sent[0], sent[-5]]
        self.assert_ids(await self.take(9, queues=("default",)), expected)

    @needs("priority")
    async def test_one_order_over_several_queues(self) -> None:
        """Three queues, or all of them, are served as if they were one line, a few at a time."""
        names = ("mail", "reports", "default")
        for queues in (names, ()):
            sent = []
            for number in range(30):
                self.clock.advance(0.5)
                sent.append(self.job(queue=names[number % 3], priority=(number * 7) % 5))
                await self.store.enqueue(sent[-1])
            expected = sorted(sent, key=lambda job: (-job.priority, job.run_at, job.id))
            taken = [job for _ in range(6) for job in await self.take(5, queues=queues)]
            self.assert_ids(taken, expected)

    async def test_a_busy_queue_does_not_hide_a_quiet_one(self) -> None:
        """Age counts across queues, so a job in a quiet queue is not starved by a full one."""
        first = await self.put(queue="quiet")
        self.clock.advance(1)
        await self.store.enqueue_many([self.job(queue="busy") for _ in range(50)])
        self.assert_ids(await self.take(1), [first])

    @needs("delayed")
    async def test_age_counts_from_the_due_time(self) -> None:
        """Of two due jobs the one due first goes first, whichever was sent first."""
        start = self.clock.now()
        late = await self.put(run_at=start + 20)
        early = await self.put(run_at=start + 10)
        self.clock.advance(15)
        now = await self.put()
        self.clock.advance(10)
        newest = await self.put()
        self.assert_ids(await self.take(9), [early, now, late, newest])

    @needs("delayed")
    async def test_a_time_in_the_past_is_due_at_once(self) -> None:
        """And it is older than what was sent before it."""
        now = await self.put()
        overdue = await self.put(run_at=self.clock.now() - 3_600)
        self.assert_ids(await self.take(9), [overdue, now])

    @needs("delayed")
    @needs("priority")
    async def test_a_job_let_in_keeps_its_priority(self) -> None:
        """A delayed job that has come due goes before ready ones of a lower priority."""
        await self.put(priority=1)
        due = await self.put(priority=2, run_at=self.clock.now() + 5)
        self.clock.advance(5)
        self.assert_ids(await self.take(1), [due])
