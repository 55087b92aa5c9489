"""When workers are told of jobs that Django's connection wrote: after the commit, and by nothing that tests count."""

import gc
import logging
import threading
from unittest import mock

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings

from tests.taskbackend.shop import tasks
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.notifying import Notifier


class Abandoned(Exception):
    pass


class Told:
    """Stands in for the way a vendor tells its workers: takes down who was told what, and on which connection."""

    def __init__(self):
        self.queues = []
        self.raw = []
        self.fails = False

    def __call__(self, raw, queues):
        assert not connection.in_atomic_block
        self.raw = [raw]
        self.queues.append(sorted(queues))
        if self.fails:
            raise RuntimeError("the workers are out")


class Telling:
    def setUp(self):
        self.told = Told()
        patched = mock.patch.object(backend_of("default").shared.store, "notifier", Notifier("default", self.told))
        patched.start()
        self.addCleanup(patched.stop)


@override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": []}})
class NotifyingTests(Telling, TransactionTestCase):
    def test_outside_of_a_transaction_it_is_told_at_once(self):
        tasks.add.enqueue(1)
        tasks.add.using(queue_name="slow").enqueue(1)

        self.assertEqual(self.told.queues, [["default"], ["slow"]])
        self.assertEqual(self.told.raw, [connection.connection])

    def test_a_bulk_enqueue_is_told_in_one(self):
        tasks.add.enqueue_many([(1,), (2,)])

        self.assertEqual(self.told.queues, [["default"]])

    def test_inside_of_one_it_is_told_at_the_outermost_commit_once_for_each_queue(self):
        with transaction.atomic():
            for number in range(3):
                tasks.add.enqueue(number)
                with transaction.atomic():
                    tasks.add.using(queue_name="slow").enqueue(number)
                    tasks.add.enqueue(number)
            self.assertEqual(len(connection.run_on_commit), 2)
            self.assertEqual(self.told.queues, [])

        self.assertEqual(self.told.queues, [["default"], ["slow"]])

    def test_the_next_transaction_is_told_of_again(self):
        for _ in range(2):
            with transaction.atomic():
                tasks.add.enqueue(1)

        self.assertEqual(self.told.queues, [["default"]] * 2)

    def test_a_rollback_tells_nobody(self):
        with self.assertRaises(Abandoned), transaction.atomic():
            tasks.add.enqueue(1)
            raise Abandoned
        with transaction.atomic():
            tasks.add.enqueue(1)
            transaction.set_rollback(True)

        self.assertEqual(self.told.queues, [])

    def test_what_a_savepoint_takes_back_is_not_told_and_what_comes_after_it_is(self):
        with transaction.atomic():
            with self.assertRaises(Abandoned), transaction.atomic():
                tasks.add.enqueue(1)
                tasks.add.using(queue_name="slow").enqueue(1)
                raise Abandoned
            self.assertEqual(connection.run_on_commit, [])
            tasks.add.enqueue(2)

        self.assertEqual(self.told.queues, [["default"]])

    def test_callbacks_of_the_projects_that_a_savepoint_takes_back_do_not_hide_ours(self):
        with transaction.atomic():
            with self.assertRaises(Abandoned), transaction.atomic():
                transaction.on_commit(lambda: None)
                raise Abandoned
            transaction.on_commit(lambda: None)
            tasks.add.enqueue(1)
            with self.assertRaises(Abandoned), transaction.atomic():
                tasks.add.enqueue(2)
                transaction.on_commit(lambda: None)
                raise Abandoned
            tasks.add.enqueue(3)
            self.assertEqual(len(connection.run_on_commit), 2)

        self.assertEqual(self.told.queues, [["default"]])

    def test_with_autocommit_off_nobody_is_told(self):
        transaction.set_autocommit(False)
        try:
            tasks.add.enqueue(1)
            transaction.commit()
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

        self.assertEqual(self.told.queues, [])

    def test_a_failure_is_passed_over(self):
        self.told.fails = True
        with self.assertLogs("tinyjobs.tasks", logging.DEBUG) as logs:
            tasks.add.enqueue(1)
            with transaction.atomic():
                tasks.add.enqueue(1)

        self.assertEqual(len(self.told.queues), 2)
        self.assertEqual([record.levelname for record in logs.records], ["DEBUG"] * 2)

    def test_a_failure_does_not_keep_the_projects_callbacks_from_running(self):
        self.told.fails = True
        ran = []
        with transaction.atomic():
            tasks.add.enqueue(1)
            transaction.on_commit(lambda: ran.append(True))

        self.assertEqual(ran, [True])

    def test_a_connection_that_was_closed_in_between_is_not_opened_for_it(self):
        notifier = backend_of("default").shared.store.notifier
        connection.close()
        notifier.added(("default",))

        self.assertIsNone(connection.connection)
        self.assertEqual(self.told.queues, [])

    def test_a_connection_whose_thread_has_ended_is_not_kept(self):
        notifier = backend_of("default").shared.store.notifier

        def send():
            try:
                with transaction.atomic():
                    tasks.add.enqueue(1)
            finally:
                connection.close()

        thread = threading.Thread(target=send)
        thread.start()
        thread.join()
        gc.collect()

        self.assertEqual(self.told.queues, [["default"]])
        self.assertEqual(list(notifier._registered), [])


class InsideATestCaseTests(Telling, TestCase):
    def test_nothing_is_added_that_a_test_can_count(self):
        with self.captureOnCommitCallbacks(execute=True) as callbacks, self.assertNumQueries(1):
            tasks.add.enqueue(1)
        self.assertEqual(callbacks, [])
        with self.captureOnCommitCallbacks(execute=True) as callbacks, transaction.atomic():
            tasks.add.enqueue(1)
        self.assertEqual(callbacks, [])
        self.assertEqual(self.told.queues, [])
