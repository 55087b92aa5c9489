"""Schedules: a stored next time survives restarts, and each firing happens once, with its jobs or not at all."""

from dataclasses import replace

from tinyjobs.core.job import ScheduleMove, ScheduleState
from tinyjobs.core.status import JobStatus
from tinyjobs.testing.contract.case import ContractCase, needs

NIGHTLY = ScheduleState(
    name="nightly",
    cron="0 3 * * *",
    timezone="Europe/Rome",
    next_run_at=1_700_010_000.25,
    task="shop.tasks.close_day",
    payload=b'{"args":["\xc3\xa9"]}',
    queue="reports",
    priority=-3,
    misfire="run_all",
    overlap=True,
)
HOURLY = ScheduleState(name="hourly", cron="0 * * * *", timezone="UTC", next_run_at=1_700_003_600.0)


class Schedules(ContractCase):
    """For stores that declare `schedules`."""

    @needs("schedules")
    async def test_schedules_are_kept(self) -> None:
        """As they were registered, by name."""
        self.assertEqual(await self.store.schedules(), [])
        await self.store.register_schedules([])
        await self.store.register_schedules([NIGHTLY, HOURLY])
        self.assertEqual(await self.store.schedules(), [HOURLY, NIGHTLY])

    @needs("schedules")
    async def test_a_stored_time_is_kept(self) -> None:
        """Registering the same rule again, as every start does, goes on where the last process stopped."""
        await self.store.register_schedules([NIGHTLY])
        await self._fire(NIGHTLY, NIGHTLY.next_run_at + 86_400)
        (stored,) = await self.store.schedules()
        await self.store.register_schedules([replace(NIGHTLY, next_run_at=1.0), HOURLY])
        self.assertEqual(await self.store.schedules(), [HOURLY, stored])

    @needs("schedules")
    async def test_a_changed_rule_starts_anew(self) -> None:
        """Another cron or time zone takes the time that comes with it, and keeps what the schedule did last."""
        await self.store.register_schedules([NIGHTLY])
        await self._fire(NIGHTLY, NIGHTLY.next_run_at + 86_400)
        (stored,) = await self.store.schedules()
        for changed in (
            replace(NIGHTLY, cron="30 3 * * *", next_run_at=1_800_000_000.0),
            replace(NIGHTLY, cron="30 3 * * *", timezone="UTC", next_run_at=1_900_000_000.0),
        ):
            await self.store.register_schedules([changed])
            expected = replace(changed, last_run_at=stored.last_run_at, last_job_id=stored.last_job_id)
            self.assertEqual(await self.store.schedules(), [expected])

    @needs("schedules")
    async def test_what_is_declared_changes_without_the_time(self) -> None:
        """Another task, other arguments or policies: the next time stays, and so does what the schedule did last."""
        await self.store.register_schedules([NIGHTLY])
        await self._fire(NIGHTLY, NIGHTLY.next_run_at + 86_400)
        (stored,) = await self.store.schedules()
        changes = {"task": "shop.tasks.open_day", "payload": None, "codec": "pickle", "queue": None, "priority": None}
        for values in (changes, {"misfire": "skip", "overlap": False}):
            await self.store.register_schedules([replace(NIGHTLY, next_run_at=1.0, **values)])
            self.assertEqual(await self.store.schedules(), [replace(stored, **values)])

    @needs("schedules")
    async def test_schedules_kept_as_data(self) -> None:
        """They are added and changed one by one, by the rules of the others, and deleted."""
        kept = replace(NIGHTLY, source="data")
        self.assertTrue(await self.store.save_schedule(kept))
        self.assertEqual(await self.store.schedules(), [kept])
        self.assertTrue(await self.store.save_schedule(replace(kept, next_run_at=1.0, priority=7)))
        self.assertEqual(await self.store.schedules(), [replace(kept, priority=7)])
        self.assertTrue(await self.store.save_schedule(replace(kept, cron="5 3 * * *", next_run_at=1.0)))
        self.assertEqual(await self.store.schedules(), [replace(kept, cron="5 3 * * *", next_run_at=1.0)])
        self.assertTrue(await self.store.delete_schedule("nightly"))
        self.assertFalse(await self.store.delete_schedule("nightly"))
        self.assertEqual(await self.store.schedules(), [])

    @needs("schedules")
    async def test_what_the_code_declares_is_not_saved_over(self) -> None:
        """A declaration wins over a row of the same name, whoever comes first."""
        await self.store.register_schedules([NIGHTLY])
        self.assertFalse(await self.store.save_schedule(replace(NIGHTLY, source="data", priority=9)))
        self.assertEqual(await self.store.schedules(), [NIGHTLY])
        hourly = replace(HOURLY, source="data", priority=9)
        self.assertTrue(await self.store.save_schedule(hourly))
        await self.store.register_schedules([HOURLY])
        self.assertEqual(await self.store.schedules(), [HOURLY, NIGHTLY])

    @needs("schedules")
    async def test_a_schedule_that_stopped_itself(self) -> None:
        """Its reason is kept until it is moved on or registered again, which then starts it anew."""
        stopped = 2.0**62
        for by_hand in (False, True):
            await self.store.register_schedules([NIGHTLY])
            moved = await self.store.fire_schedule(
                "nightly", expected=NIGHTLY.next_run_at, next_run_at=stopped, jobs=[], error="no task of that name"
            )
            self.assertEqual(moved, [])
            (state,) = await self.store.schedules()
            self.assertEqual((state.next_run_at, state.error), (stopped, "no task of that name"))
            if by_hand:
                await self.store.fire_schedule(
                    "nightly", expected=stopped, next_run_at=NIGHTLY.next_run_at, jobs=[], error=None
                )
            else:
                await self.store.register_schedules([NIGHTLY])
            self.assertEqual(await self.store.schedules(), [NIGHTLY])

    @needs("schedules")
    async def test_the_present(self) -> None:
        """The store tells the instant by which schedules are judged; here the clock it was given decides."""
        self.assertEqual(await self.store.present(), self.clock.now())
        self.clock.advance(0.5)
        self.assertEqual(await self.store.present(), self.clock.now())

    @needs("schedules")
    async def test_firing(self) -> None:
        """The schedule moves on, its jobs are there, and it tells what it did last."""
        await self.store.register_schedules([NIGHTLY, HOURLY])
        jobs = [self.job(payload=b"1"), self.job(payload=b"2")]
        fired = await self.store.fire_schedule(
            "nightly", expected=NIGHTLY.next_run_at, next_run_at=NIGHTLY.next_run_at + 86_400, jobs=jobs
        )
        self.assertEqual(fired, jobs)
        self.assertEqual([await self.read(job) for job in jobs], jobs)
        hourly, nightly = await self.store.schedules()
        self.assertEqual(hourly, HOURLY)
        self.assertEqual(nightly.next_run_at, NIGHTLY.next_run_at + 86_400)
        self.assertEqual((nightly.last_run_at, nightly.last_job_id), (self.clock.now(), jobs[-1].id))

    @needs("schedules")
    async def test_firing_nothing(self) -> None:
        """A firing that is skipped moves the schedule on all the same."""
        await self.store.register_schedules([NIGHTLY])
        self.assertEqual(await self._fire(NIGHTLY, 1_800_000_000.0, jobs=0), 0)
        (stored,) = await self.store.schedules()
        self.assertEqual((stored.next_run_at, stored.last_job_id), (1_800_000_000.0, None))

    @needs("schedules")
    async def test_only_the_expected_time_fires(self) -> None:
        """A caller who read an older time, or names a schedule that is not there, is told so and creates nothing."""
        await self.store.register_schedules([NIGHTLY])
        before = await self.store.schedules()
        for name, expected in (("nightly", NIGHTLY.next_run_at - 1), ("nightly", 0.0), ("daily", NIGHTLY.next_run_at)):
            fired = await self.store.fire_schedule(name, expected=expected, next_run_at=2e9, jobs=[self.job()])
            self.assertIsNone(fired)
        self.assertEqual(await self.store.schedules(), before)
        self.assertEqual((await self.store.list()).jobs, [])

    @needs("schedules")
    async def test_a_firing_is_whole_or_nothing(self) -> None:
        """When a job of it cannot be kept the schedule stays where it was, so the firing is not lost."""
        await self.store.register_schedules([NIGHTLY])
        there = await self.put()
        before = await self.store.schedules()
        jobs = [self.job(), replace(self.job(), id=there.id)]
        with self.assertRaises(Exception):  # noqa: B017 - which error it is the store decides
            await self.store.fire_schedule("nightly", expected=NIGHTLY.next_run_at, next_run_at=2e9, jobs=jobs)
        self.assertEqual(await self.store.schedules(), before)
        self.assertIsNone(await self.store.get(jobs[0].id))
        self.assertEqual(await self._fire(NIGHTLY, 2e9), 1)

    @needs("schedules")
    @needs("dedup")
    async def test_a_firing_that_meets_its_last_job(self) -> None:
        """With a key, a firing whose last job has not ended is answered with that job; the schedule moves on."""
        await self.store.register_schedules([NIGHTLY])
        first, second = self.job(key="cron:nightly"), self.job(key="cron:nightly")
        times = (NIGHTLY.next_run_at, 1.8e9, 1.9e9)
        await self.store.fire_schedule("nightly", expected=times[0], next_run_at=times[1], jobs=[first])
        fired = await self.store.fire_schedule("nightly", expected=times[1], next_run_at=times[2], jobs=[second])
        assert fired is not None
        self.assertEqual([(job.id, job.existing) for job in fired], [(first.id, True)])
        (stored,) = await self.store.schedules()
        self.assertEqual((stored.next_run_at, stored.last_job_id, stored.skips), (times[2], first.id, 1))
        self.assertEqual(len((await self.store.list(status=JobStatus.QUEUED)).jobs), 1)

    @needs("schedules")
    async def test_racing_to_fire(self) -> None:
        """Of all who find a schedule due one fires it; its jobs exist once."""
        clients = await self.clients()
        await self.store.register_schedules([NIGHTLY])
        expected = NIGHTLY.next_run_at
        for _ in range(self.rounds):
            calls = [
                client.fire_schedule(
                    "nightly", expected=expected, next_run_at=expected + 60, jobs=[self.job(), self.job()]
                )
                for client in clients
            ]
            answers = await self.race(*calls)
            (fired,) = [answer for answer in answers if answer is not None]
            self.assertEqual(sorted(job.id for job in await self.take(9)), [job.id for job in fired])
            expected += 60
            self.assertEqual([state.next_run_at for state in await self.store.schedules()], [expected])

    @needs("schedules")
    async def test_firing_many(self) -> None:
        """Each as if alone: some with jobs, one without, one that somebody else has moved, one that is not there."""
        names = ("a", "b", "c", "d")
        await self.store.register_schedules([replace(HOURLY, name=name) for name in names])
        jobs = {name: [self.job(), self.job()] for name in "ab"}
        self.assertEqual(await self.store.fire_schedules([]), [])
        moves = [
            ScheduleMove(name="d", expected=1.0, next_run_at=2e9, jobs=[self.job()]),
            ScheduleMove(name="b", expected=HOURLY.next_run_at, next_run_at=1.8e9, jobs=jobs["b"]),
            ScheduleMove(name="gone", expected=HOURLY.next_run_at, next_run_at=1.8e9, jobs=[self.job()]),
            ScheduleMove(name="c", expected=HOURLY.next_run_at, next_run_at=2.0**62, error="cannot be"),
            ScheduleMove(name="a", expected=HOURLY.next_run_at, next_run_at=1.9e9, jobs=jobs["a"]),
        ]
        self.assertEqual(await self.store.fire_schedules(moves), [None, jobs["b"], None, [], jobs["a"]])
        a, b, c, d = await self.store.schedules()
        self.assertEqual((a.next_run_at, a.last_run_at, a.last_job_id), (1.9e9, self.clock.now(), jobs["a"][-1].id))
        self.assertEqual((b.next_run_at, b.last_job_id), (1.8e9, jobs["b"][-1].id))
        self.assertEqual((c.next_run_at, c.last_job_id, c.error), (2.0**62, None, "cannot be"))
        self.assertEqual(d, replace(HOURLY, name="d"))
        self.assertEqual(len((await self.store.list()).jobs), 4)

    @needs("schedules")
    async def test_racing_to_fire_many(self) -> None:
        """Schedulers that find the same schedules due share them; each fires once, whoever gets it."""
        clients = await self.clients()
        names = [f"n{number:02}" for number in range(24)]
        await self.store.register_schedules([replace(HOURLY, name=name) for name in names])
        expected = HOURLY.next_run_at
        for _ in range(self.rounds):
            moves = [
                [
                    ScheduleMove(name=name, expected=expected, next_run_at=expected + 60, jobs=[self.job()])
                    for name in (*names[start:], *names[:start])
                ]
                for start in (index * 5 for index in range(len(clients)))
            ]
            answers = await self.race(
                *(client.fire_schedules(mine) for client, mine in zip(clients, moves, strict=True))
            )
            fired = [
                move.name
                for mine, answer in zip(moves, answers, strict=True)
                for move, jobs in zip(mine, answer, strict=True)
                if jobs is not None
            ]
            self.assertEqual(sorted(fired), names)
            self.assertEqual(len(await self.take(99)), len(names))
            expected += 60

    @needs("schedules")
    async def test_racing_to_register(self) -> None:
        """Processes that start together register the same schedules without a quarrel."""
        clients = await self.clients()
        both = [NIGHTLY, HOURLY]
        await self.race(
            *(client.register_schedules(both[::turn]) for client, turn in zip(clients, (1, -1) * 9, strict=False))
        )
        self.assertEqual(await self.store.schedules(), [HOURLY, NIGHTLY])

    async def _fire(self, state: ScheduleState, next_run_at: float, jobs: int = 1) -> int:
        fired = await self.store.fire_schedule(
            state.name,
            expected=state.next_run_at,
            next_run_at=next_run_at,
            jobs=[self.job() for _ in range(jobs)],
        )
        assert fired is not None, "the schedule did not fire"
        return len(fired)
