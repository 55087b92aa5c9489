"""A store outside of the project's database: jobs are sent when the caller's transaction commits."""

from unittest import mock

from django.conf import settings
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


class InMemory:
    """Jobs are in a store that a URL names. `calls` has the jobs of each call that adds some."""

    url = "memory://"

    def setUp(self):
        forget()  # each test its own store
        self.use()
        self.calls = []
        store = default_task_backend.shared.store
        send = type(store).enqueue_many

        def recorded(store, jobs):
            self.calls.append([job.id for job in jobs])
            return send(store, jobs)

        patched = mock.patch.object(type(store), "enqueue_many", recorded)
        patched.start()
        self.addCleanup(patched.stop)

    def use(self, **options):
        entry = {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"url": self.url, **options}}
        self.enterContext(override_settings(TASKS={"default": entry}))

    def stored(self):
        return [job.id for job in reversed(finish(default_task_backend.shared.store.list()).jobs)]


class Abandoned(Exception):
    pass


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
            self.assertRaises(StoreUnavailableError) as raised,
            mock.patch.object(type(store), "enqueue_many", fail),
            transaction.atomic(),
        ):
            results = [tasks.add.enqueue(1), tasks.add.enqueue(2)]

        for result in results:
            self.assertIn(result.id, logged.output[0])
        self.assertEqual(logged.records[0].job_ids, [result.id for result in results])
        self.assertIn("committed", raised.exception.__notes__[0])

    def test_what_one_commit_sends_goes_in_one_call(self):
        with transaction.atomic():
            first = tasks.add.enqueue(1)
            for number in range(3):
                with transaction.atomic():
                    tasks.add.enqueue(number)
            with self.assertRaises(Abandoned), transaction.atomic():
                tasks.add.enqueue(4)
                raise Abandoned
            last = tasks.add.enqueue(5)

        (call,) = self.calls
        self.assertEqual((len(call), call[0], call[-1]), (5, first.id, last.id))
        self.assertEqual(self.stored(), call)

    def test_a_savepoint_rolled_back_at_the_end_takes_its_own_jobs_and_no_others(self):
        with transaction.atomic():
            outer = [tasks.add.enqueue(1), tasks.add.enqueue(2)]
            with transaction.atomic():
                inner = [tasks.add.enqueue(3), tasks.add.enqueue(4)]
                with self.assertRaises(Abandoned), transaction.atomic():
                    tasks.add.enqueue(5)
                    raise Abandoned
            with self.assertRaises(Abandoned), transaction.atomic():
                tasks.add.enqueue(6)
                raise Abandoned

        self.assertEqual(self.stored(), [result.id for result in outer + inner])
        self.assertEqual([len(call) for call in self.calls], [2, 2])

    def test_a_transaction_of_a_callback_is_not_mixed_with_the_one_that_commits(self):
        def roll_back():
            with self.assertRaises(Abandoned), transaction.atomic():
                tasks.add.enqueue(1)
                raise Abandoned

        def commit():
            with transaction.atomic():
                told.append(tasks.add.enqueue(2).id)
                with self.assertRaises(Abandoned), transaction.atomic():
                    tasks.add.enqueue(3)
                    raise Abandoned

        told = []
        with transaction.atomic():
            transaction.on_commit(roll_back)
            transaction.on_commit(commit)
            results = [tasks.add.enqueue(4), tasks.add.enqueue(5)]

        self.assertEqual(self.calls, [told, [result.id for result in results]])
        self.assertEqual(sorted(self.stored()), sorted(told + self.calls[1]))

    def test_a_callback_that_fails_takes_later_sends_along_and_no_earlier_ones(self):
        def fail():
            raise Abandoned

        with self.assertRaises(Abandoned), transaction.atomic():
            results = [tasks.add.enqueue(1)]
            transaction.on_commit(fail)
            results.append(tasks.add.enqueue(2))
        with self.assertRaises(Abandoned), transaction.atomic():
            transaction.on_commit(fail)
            tasks.add.enqueue(3)

        self.assertEqual(self.stored(), [result.id for result in results])

    def test_each_store_gets_its_own(self):
        options = {"url": self.url, "prefix": "second"}
        second = {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}
        with self.settings(TASKS={**settings.TASKS, "second": second}), transaction.atomic():
            here = [tasks.add.enqueue(number) for number in range(2)]
            there = [tasks.add.using(backend="second").enqueue(number) for number in range(2)]

        self.assertEqual(self.calls, [[result.id for result in results] for results in (here, there)])

    def test_with_autocommit_off_it_says_what_to_do(self):
        transaction.set_autocommit(False)
        try:
            with self.assertRaisesMessage(TransactionManagementError, "'enqueue_on_commit'] = False"):
                tasks.add.enqueue(1)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

    def test_the_option_sends_at_once(self):
        self.use(enqueue_on_commit=False)
        with self.assertRaises(Abandoned), transaction.atomic():
            result = tasks.add.enqueue(1)
            raise Abandoned

        self.assertEqual(self.stored(), [result.id])


class InsideTestCaseTests(InMemory, TestCase):
    def test_pending_sends_can_be_performed_by_hand(self):
        result = tasks.add.enqueue(1)
        self.assertEqual(self.stored(), [])

        send_pending()
        send_pending()
        self.assertEqual(self.stored(), [result.id])

    def test_a_drain_sends_what_is_pending_in_one_call(self):
        results = [tasks.add.enqueue(number) for number in range(3)]
        send_pending()

        self.assertEqual(self.calls, [[result.id for result in results]])

    def test_captured_callbacks_send(self):
        before = tasks.add.enqueue(0)
        with self.captureOnCommitCallbacks(execute=True):
            result = tasks.add.enqueue(1)

        self.assertEqual(self.stored(), [result.id])
        send_pending()
        self.assertEqual(self.stored(), sorted([before.id, result.id]))
