"""A store outside of the project's database: jobs are sent when the caller's transaction commits."""

from unittest import mock

from django.db import transaction
from django.db.transaction import TransactionManagementError
from django.tasks import default_task_backend
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.test import TestCase, TransactionTestCase, override_settings

from tests.taskbackend.shop import tasks
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job
from tinyjobs.taskbackend.deferred import send_pending
from tinyjobs.taskbackend.shared import forget


def in_memory(**options):
    return override_settings(
        TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"url": "memory://", **options}}}
    )


class InMemory:
    def setUp(self):
        forget()  # each test its own store

    def stored(self):
        return [job.id for job in reversed(finish(default_task_backend.shared.store.list()).jobs)]


class Abandoned(Exception):
    pass


@in_memory()
class DeferredTests(InMemory, TransactionTestCase):
    def test_outside_a_transaction_it_is_sent_at_once(self):
        result = tasks.add.enqueue(1)

        self.assertEqual(self.stored(), [result.id])

    def test_inside_one_it_is_sent_at_the_commit(self):
        told = []

        def receiver(sender, task_result, **kwargs):
            told.append(task_result.id)

        task_enqueued.connect(receiver)
        self.addCleanup(task_enqueued.disconnect, receiver)
        with transaction.atomic():
            first = tasks.add.enqueue(1)
            many = tasks.add.enqueue_many([(2,), (3,)])
            with self.assertRaises(Abandoned), transaction.atomic():
                tasks.add.enqueue(4)
                raise Abandoned
            self.assertEqual((self.stored(), told), ([], []))
            with self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(first.id)

        self.assertEqual(self.stored(), [first.id, *(entry.id for entry in many)])
        self.assertEqual(told, self.stored())
        self.assertEqual(default_task_backend.get_result(first.id), first)

    def test_a_rolled_back_block_sends_nothing(self):
        with self.assertRaises(Abandoned), transaction.atomic():
            tasks.add.using(key="once").enqueue(1)
            raise Abandoned

        self.assertEqual(self.stored(), [])

    def test_a_held_key_is_found_at_once(self):
        holder = tasks.add.using(key="once").enqueue(1)
        with transaction.atomic():
            self.assertEqual(tasks.add.using(key="once").enqueue(2).id, holder.id)
            same = tasks.add.using(key="new").enqueue_many([(3,), (4,)])
            self.assertEqual(same[0].id, same[1].id)

        self.assertEqual(self.stored(), [holder.id, same[0].id])

    def test_a_key_that_waits_for_the_same_commit_is_held(self):
        with transaction.atomic():
            with self.assertRaises(Abandoned), transaction.atomic():
                tasks.add.using(key="once").enqueue(1)
                raise Abandoned
            first = tasks.add.using(key="once").enqueue(2)
            with transaction.atomic():
                again = tasks.add.using(key="once").enqueue(3)
            many = tasks.add.using(key="once").enqueue_many([(4,), (5,)])
            new = tasks.add.using(key="new").enqueue_many([(6,), (7,)])
        answers = [first, again, *many]

        self.assertEqual({result.id for result in answers}, {first.id})
        self.assertEqual([result.existing for result in answers], [False, True, True, True])
        self.assertEqual([result.existing for result in new], [False, True])
        self.assertEqual(again.args, [2])
        self.assertEqual(self.stored(), [first.id, new[0].id])

    def test_a_key_lost_until_the_commit_is_logged(self):
        with self.assertLogs("tinyjobs.tasks", "WARNING") as logged, transaction.atomic():
            late = tasks.add.using(key="once").enqueue(1)
            # Another process meanwhile, as it were.
            finish(default_task_backend.shared.store.enqueue(Job(id="other", task="t", key="once", payload=b"[[],{}]")))

        self.assertIn(late.id, logged.output[0])
        with self.assertRaises(TaskResultDoesNotExist):
            default_task_backend.get_result(late.id)

    def test_a_store_out_of_reach_at_the_commit(self):
        store = default_task_backend.shared.store

        def fail(*args):
            raise StoreUnavailableError("gone")

        with (
            self.assertLogs("tinyjobs.tasks", "ERROR") as logged,
            self.assertRaises(StoreUnavailableError),
            mock.patch.object(type(store), "enqueue_many", fail),
            transaction.atomic(),
        ):
            result = tasks.add.enqueue(1)

        self.assertIn(result.id, logged.output[0])

    def test_with_autocommit_off_it_says_what_to_do(self):
        transaction.set_autocommit(False)
        try:
            with self.assertRaisesMessage(TransactionManagementError, "'enqueue_on_commit'] = False"):
                tasks.add.enqueue(1)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

    @in_memory(enqueue_on_commit=False)
    def test_the_option_sends_at_once(self):
        with self.assertRaises(Abandoned), transaction.atomic():
            result = tasks.add.enqueue(1)
            raise Abandoned

        self.assertEqual(self.stored(), [result.id])


@in_memory()
class InsideTestCaseTests(InMemory, TestCase):
    def test_pending_sends_can_be_performed_by_hand(self):
        result = tasks.add.enqueue(1)
        self.assertEqual(self.stored(), [])

        send_pending()
        send_pending()
        self.assertEqual(self.stored(), [result.id])

    def test_captured_callbacks_send(self):
        with self.captureOnCommitCallbacks(execute=True):
            result = tasks.add.enqueue(1)

        self.assertEqual(self.stored(), [result.id])
