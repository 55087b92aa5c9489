"""A project whose jobs are in Redis: what holds for jobs in the database, or in any store beside it, holds here."""

import enum

import pytest
from django.db import transaction
from django.test import TransactionTestCase, override_settings

from tests.taskbackend import test_deferred, test_drain, test_enqueue, test_project, test_worker
from tests.taskbackend.shop import tasks
from tinyjobs.taskbackend.backend import backend_of

pytestmark = pytest.mark.redis


class Urgency(enum.IntEnum):
    HIGH = 10


class OnRedis:
    """Jobs are in a Redis database of the test's own. A test that looks at our tables is set to None."""

    @pytest.fixture(autouse=True)
    def _fresh_store(self, redis_url):
        self.url = redis_url
        with override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": self.options()}}):
            yield

    def options(self):
        return {"url": self.url}


class AtOnce(OnRedis):
    def options(self):
        return {"url": self.url, "enqueue_on_commit": False}


class DeferredTests(OnRedis, test_deferred.DeferredTests):
    pass


class InsideTestCaseTests(OnRedis, test_deferred.InsideTestCaseTests):
    pass


class WorkerTests(OnRedis, test_worker.WorkerTests):
    pass


class BesideAWorkerTests(OnRedis, test_project.BesideAWorkerTests):
    pass


class DrainTests(OnRedis, test_drain.DrainTests):
    test_retries_wait_for_their_time = None
    test_a_job_of_a_task_that_is_gone_raises_and_stays = None
    test_arguments_nobody_can_read_fail_the_job = None
    test_a_cancelled_job_reads_as_failed = None
    test_the_query_log_of_the_test_is_left_alone = None
    test_names_outside_of_the_installed_apps_are_not_imported = None


class DrainSignalTests(OnRedis, test_drain.SignalTests):
    pass


class LeftBehindTests(AtOnce, test_drain.LeftBehindTests):
    pass


class EagerTests(OnRedis, test_drain.EagerTests):
    test_as_a_decorator_and_only_the_job_that_was_sent = None  # leaves the store in between


class StoreOfItsOwnTests(OnRedis, test_drain.StoreOfItsOwnTests):
    pass


class AssertionTests(OnRedis, test_drain.AssertionTests):
    pass


class ValidationTests(AtOnce, test_enqueue.ValidationTests):
    pass


class EnqueueTests(AtOnce, test_enqueue.EnqueueTests):
    test_a_job_nobody_took_is_read_with_one_query = None
    test_a_time_long_ago_means_now_and_one_too_far_is_refused = None
    test_aenqueue_writes_on_the_same_connection = None
    test_arguments_are_told_by_the_signature = None
    test_one_enqueue_is_one_query_and_one_row = None
    test_the_code_of_a_stored_job_is_gone = None
    test_the_time_asked_for_is_kept_to_the_microsecond = None
    test_without_time_zones_datetimes_are_naive = None


class AnswerTests(OnRedis, TransactionTestCase):
    def test_keys_bulk_and_what_using_changes_are_kept_with_the_job(self):
        sent = tasks.flaky.using(key="one", priority=7, queue_name="default", max_attempts=5)
        first = sent.enqueue()
        again = sent.enqueue()
        many = tasks.add.using(key="two").enqueue_many([(1,), (2,)])

        self.assertEqual((again.id, again.existing), (first.id, True))
        self.assertEqual([result.existing for result in many], [False, True])
        self.assertEqual(tasks.flaky.get_result(first.id).task, sent)
        with transaction.atomic():
            self.assertTrue(sent.enqueue().existing)

    def test_the_errors_of_each_attempt_are_read_back(self):
        result = tasks.fail.enqueue("told")
        with self.assertLogs("django.tasks", "ERROR"):
            test_worker.work()
        result.refresh()

        self.assertEqual((result.status, result.attempts), ("FAILED", 1))
        self.assertIs(result.errors[0].exception_class, ValueError)
        self.assertIn("raise ValueError(text)", result.errors[0].traceback)

    def test_what_django_takes_for_a_priority_is_one_here(self):
        """It lets pass whatever equals a whole number."""
        for priority in (5.0, -0.0, Urgency.HIGH):
            with self.subTest(priority=priority):
                result = tasks.add.using(priority=priority).enqueue(1)
                self.assertEqual(test_worker.work().succeeded, 1)
                result.refresh()
                self.assertEqual((result.status, result.task.priority), ("SUCCESSFUL", priority))

    def test_no_query_is_made_for_a_job(self):
        tasks.add.enqueue(1)
        with self.assertNumQueries(0):
            result = tasks.add.enqueue(1)
            result.refresh()

    def test_a_worker_has_connections_of_its_own(self):
        tasks.add.enqueue(1)
        home = backend_of("default").shared.home
        test_worker.work()
        self.assertIs(backend_of("default").shared.home, home)
        self.assertEqual(tasks.add.enqueue(1).status, "READY")
