"""Expiry, retention and the time of a result, on Django tasks."""

import asyncio
import datetime

from django.core.management import call_command
from django.tasks import TaskResultStatus
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.tasks.signals import task_finished
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from tests.taskbackend.shop import tasks
from tests.taskbackend.test_enqueue import tasks_setting
from tests.taskbackend.test_worker import work
from tinyjobs import JobCancelled, JobExpired
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.retention import DAY, Retention
from tinyjobs.models import Execution, Job
from tinyjobs.runtime.sweeping import ResultSweeper, Sweeper
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.shared import use_clock
from tinyjobs.taskbackend.working import open_worker
from tinyjobs.testing import drain, eager

URGENT = "tests.taskbackend.shop.tasks.urgent"


class Frozen:
    def setUp(self):
        super().setUp()
        self.clock = FrozenClock(2_000_000_000.0)
        use_clock(self.clock)
        self.addCleanup(use_clock, None)
        tasks.ran.clear()


class ExpiryTests(Frozen, TestCase):
    def row(self, result):
        return Job.objects.get(pk=result.id)

    def test_every_way_to_say_when(self):
        when = datetime.datetime.fromtimestamp(self.clock.now() + 30, datetime.UTC)
        for task, seconds in (
            (tasks.urgent, 60),
            (tasks.urgent.using(expires=5), 5),
            (tasks.noop.using(expires=5.5), 5.5),
            (tasks.noop.using(expires=datetime.timedelta(minutes=2)), 120),
            (tasks.noop.using(expires=when), 30),
            (tasks.noop.using(expires=5).using(priority=3), 5),
        ):
            with self.subTest(task=task):
                result = task.enqueue()
                self.assertEqual(self.row(result).expires_at, self.clock.now() + seconds)
                self.assertEqual(task.enqueue_many([()])[0].status, TaskResultStatus.READY)
        self.assertIsNone(self.row(tasks.noop.enqueue()).expires_at)

    def test_the_settings_win_over_the_task_and_using_over_both(self):
        with tasks_setting(tasks={URGENT: {"expires": 7}, "tests.taskbackend.shop.tasks.plain": {"expires": 9}}):
            self.assertEqual(self.row(tasks.urgent.enqueue()).expires_at, self.clock.now() + 7)
            self.assertEqual(self.row(tasks.plain.enqueue()).expires_at, self.clock.now() + 9)
            self.assertEqual(self.row(tasks.urgent.using(expires=1).enqueue()).expires_at, self.clock.now() + 1)

    def test_what_is_wrong_is_refused_before_anything_is_kept(self):
        naive = datetime.datetime(2040, 1, 1)
        for wrong in (0, -1, "1h", True, float("nan"), naive):
            with self.subTest(wrong=wrong), self.assertRaisesMessage(InvalidTask, "expires"):
                tasks.noop.using(expires=wrong).enqueue()
        later = timezone.now() + datetime.timedelta(days=10_000)
        with self.assertRaisesMessage(InvalidTask, "will have expired by then"):
            tasks.urgent.using(run_after=later).enqueue()
        soon = datetime.datetime.fromtimestamp(self.clock.now() + 9.999_99, datetime.UTC)
        with self.assertRaisesMessage(InvalidTask, "may start in 10 s, and will have expired by then"):
            tasks.noop.using(run_after=soon, expires=10).enqueue()
        self.assertEqual(Job.objects.count(), 0)

    def test_without_time_zones_a_naive_instant_is_local_time(self):
        when = datetime.datetime.fromtimestamp(self.clock.now() + 30)
        with override_settings(USE_TZ=False):
            self.assertEqual(self.row(tasks.noop.using(expires=when).enqueue()).expires_at, self.clock.now() + 30)

    def test_what_is_read_back_tells_the_expiry_of_the_job(self):
        result = tasks.urgent.enqueue()
        self.assertEqual(tasks.urgent.get_result(result.id).task, tasks.urgent)
        own = tasks.urgent.using(expires=5).enqueue()
        read = tasks.urgent.get_result(own.id).task.expires
        self.assertEqual(read.timestamp(), self.clock.now() + 5)

    def test_a_drain_honours_it(self):
        told = []
        task_finished.connect(lambda sender, task_result, **kwargs: told.append(task_result), weak=False)
        self.addCleanup(setattr, task_finished, "receivers", task_finished.receivers[:-1])
        result, other = tasks.urgent.enqueue(), tasks.noop.enqueue()
        self.clock.advance(60)
        self.assertEqual(drain(), 1)
        for found in (result, *told):
            if found.id == result.id:
                if found is result:
                    found.refresh()
                self.assertEqual(found.status, TaskResultStatus.FAILED)
                self.assertIs(found.errors[0].exception_class, JobExpired)
                self.assertEqual((len(found.errors), found.started_at, found.attempts), (1, None, 0))
                self.assertIsNotNone(found.finished_at)
        self.assertEqual({found.id for found in told}, {result.id, other.id})
        self.assertEqual(tasks.ran, [])
        self.assertTrue(issubclass(JobExpired, JobCancelled))

    def test_an_expired_job_holds_no_key(self):
        tasks.urgent.using(key="k").enqueue()
        self.assertTrue(tasks.urgent.using(key="k").enqueue().existing)
        self.clock.advance(60)
        drain()
        self.assertFalse(tasks.urgent.using(key="k").enqueue().existing)

    def test_eager_jobs_are_in_time(self):
        with eager():
            self.assertEqual(tasks.urgent.enqueue().status, TaskResultStatus.SUCCESSFUL)

    def test_the_task_is_copied_and_pickled_with_it(self):
        import pickle

        copy = pickle.loads(pickle.dumps(tasks.urgent.using(expires=5)))
        self.assertEqual((copy.expires, copy.result_ttl), (5, 30))


class RetentionTests(Frozen, TransactionTestCase):
    def test_by_default_and_as_the_settings_say(self):
        self.assertEqual(backend_of("default").shared.settings.retention, Retention())
        with tasks_setting(retention={"success": 60, "failed": datetime.timedelta(days=1)}):
            found = backend_of("default").shared.settings.retention
            self.assertEqual((found.success, found.cancelled, found.failed), (60, 7 * DAY, DAY))
            with open_worker() as worker:
                self.assertEqual(worker.engine.retention, found)

    def test_a_result_that_is_dropped_reads_none(self):
        result = tasks.urgent.enqueue()
        drain()
        result.refresh()
        self.assertEqual((result.return_value, tasks.urgent.result_ttl), ("in time", 30))
        self.clock.advance(30)
        with open_worker() as worker:
            asyncio.run(self._swept(ResultSweeper, worker))
        result.refresh()
        self.assertEqual((result.status, result.return_value), (TaskResultStatus.SUCCESSFUL, None))
        self.assertEqual(Execution.objects.filter(job_id=result.id).count(), 1)

    def test_a_purged_job_is_gone(self):
        result = tasks.noop.enqueue()
        drain()
        self.clock.advance(7 * DAY)
        with open_worker() as worker:
            asyncio.run(self._swept(Sweeper, worker))
        with self.assertRaises(TaskResultDoesNotExist):
            tasks.noop.get_result(result.id)
        self.assertEqual((Job.objects.count(), Execution.objects.count()), (0, 0))

    async def _swept(self, kind, worker):
        store = worker.engine.store
        await store.setup()
        try:
            await kind(worker.engine).look()
        finally:
            await store.close()

    def test_a_worker_ends_what_expired(self):
        result = tasks.urgent.enqueue()
        self.clock.advance(60)
        report = work()
        result.refresh()
        self.assertEqual((report.succeeded, report.expired, result.status), (0, 1, TaskResultStatus.FAILED))

    def test_the_command_purges_the_projects_jobs(self):
        tasks.noop.enqueue_many([()] * 3)
        drain()
        self.clock.advance(60)
        call_command("tinyjobs", "purge", "--older-than", "1min", verbosity=0)
        self.assertEqual((Job.objects.count(), Execution.objects.count()), (0, 0))
