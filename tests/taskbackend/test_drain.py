"""Jobs run inside a test: on its own connection, inside its transaction, leaving the connection as it was."""

import datetime
import threading

from django.db import connection, transaction
from django.tasks import TaskResultStatus
from django.tasks.signals import task_finished, task_started
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone, translation

from tests.taskbackend.shop import tasks
from tests.taskbackend.shop.models import Order
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import UnknownTaskError
from tinyjobs.models import Execution, Job
from tinyjobs.taskbackend.shared import use_clock
from tinyjobs.testing import adrain, assert_enqueued, assert_not_enqueued, drain, eager, enqueued_jobs

OURS = "tinyjobs.TinyJobsBackend"


def run(task, *args, **kwargs):
    result = task.enqueue(*args, **kwargs)
    drain()
    result.refresh()
    return result


class DrainTests(TestCase):
    def setUp(self):
        tasks.ran.clear()

    def test_it_runs_what_is_due_and_counts_it(self):
        tasks.add.using(run_after=timezone.now() + datetime.timedelta(hours=1)).enqueue(1)
        results = tasks.add.enqueue_many([(1, 1), (2, 2)])

        self.assertEqual(drain(), 2)
        for result in results:
            result.refresh()
        self.assertEqual([result.return_value for result in results], [2, 4])
        self.assertEqual(drain(), 0)

    def test_a_limit_and_queues(self):
        tasks.add.enqueue_many([(1,), (2,), (3,)])
        self.assertEqual(drain(limit=2), 2)
        self.assertEqual(drain(queues=["other"]), 0)
        self.assertEqual(drain(queues=["default"]), 1)

    def test_jobs_share_the_tests_transaction_both_ways(self):
        Order.objects.create(name="before")
        result = run(tasks.place_order, "by the job")
        counted = run(tasks.count_orders)

        self.assertEqual(Order.objects.get(pk=result.return_value).name, "by the job")
        self.assertEqual(counted.return_value, 2)
        self.assertTrue(connection.in_atomic_block)

    def test_coroutines_use_the_same_connection(self):
        Order.objects.create(name="one")

        self.assertEqual(run(tasks.acount_orders).return_value, 1)
        self.assertEqual(run(tasks.aadd, 1, 2).return_value, 3)

    async def test_inside_an_async_test(self):
        await Order.objects.acreate(name="one")
        results = [await tasks.acount_orders.aenqueue(), await tasks.count_orders.aenqueue()]

        self.assertEqual(await adrain(), 2)
        for result in results:
            await result.arefresh()
        self.assertEqual([result.return_value for result in results], [1, 1])

    def test_it_runs_in_the_calling_thread(self):
        self.assertEqual(run(tasks.thread_name).return_value, threading.current_thread().name)

    def test_jobs_that_jobs_send_run_as_well(self):
        tasks.send_another.enqueue("second")

        self.assertEqual(drain(), 2)
        self.assertTrue(Order.objects.filter(name="second").exists())

    def test_a_failure_and_its_error(self):
        with self.assertLogs("django.tasks", "ERROR"):
            result = run(tasks.fail, "told")

        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIs(result.errors[0].exception_class, ValueError)
        self.assertIn("raise ValueError(text)", result.errors[0].traceback)
        self.assertEqual((result.attempts, len(result.worker_ids)), (1, 1))
        self.assertIsNotNone(result.finished_at)

    def test_what_a_failing_job_wrote_stays_as_it_would_in_production(self):

        with self.assertLogs("django.tasks", "ERROR"):
            run(tasks.write_and_fail, "kept")

        self.assertEqual(Order.objects.get().name, "kept")

    def test_retries_wait_for_their_time(self):
        clock = FrozenClock(2_000_000_000.0)
        use_clock(clock)
        self.addCleanup(use_clock, None)
        result = tasks.flaky.enqueue()
        self.assertEqual(drain(), 1)
        result.refresh()
        self.assertEqual((result.status, result.attempts), (TaskResultStatus.READY, 1))
        self.assertIs(result.errors[0].exception_class, ConnectionError)
        self.assertIsNone(result.finished_at)
        first = result.started_at
        self.assertEqual(drain(), 0)
        clock.advance(1)

        self.assertEqual(drain(), 1)
        result.refresh()
        self.assertEqual((result.status, result.return_value, result.attempts), ("SUCCESSFUL", "done", 2))
        self.assertEqual((result.started_at, result.last_attempted_at - first), (first, datetime.timedelta(seconds=1)))
        self.assertEqual(result.task, tasks.flaky)
        self.assertEqual(Execution.objects.filter(job_id=result.id).count(), 2)

    def test_a_retry_keeps_what_the_job_was_sent_with(self):
        clock = FrozenClock(2_000_000_000.0)
        use_clock(clock)
        self.addCleanup(use_clock, None)
        when = timezone.now() - datetime.timedelta(days=1)
        sent = tasks.flaky.using(key="mine", priority=9, max_attempts=2, run_after=when)
        result = sent.enqueue(5)
        drain()

        self.assertEqual(tasks.flaky.get_result(result.id).task, sent)
        self.assertTrue(sent.enqueue(5).existing)
        clock.advance(60)
        with self.assertLogs("django.tasks", "ERROR"):
            drain()
        result.refresh()
        self.assertEqual((result.status, result.attempts), (TaskResultStatus.FAILED, 2))
        self.assertEqual(tasks.flaky.get_result(result.id).task, sent)
        self.assertFalse(sent.enqueue(5).existing)

    def test_a_result_that_is_not_json_fails_for_good_with_djangos_error(self):
        with self.assertLogs("django.tasks", "ERROR"):
            result = run(tasks.not_json)

        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIs(result.errors[0].exception_class, TypeError)
        self.assertIn(
            f"the result of {tasks.not_json.module_path} cannot be stored: Unsupported type", result.errors[0].traceback
        )
        self.assertEqual(result.attempts, 1)

    @override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": {"rich_arguments": True}}})
    def test_rich_results_keep_their_types(self):
        self.assertEqual(run(tasks.not_json).return_value, {1, 2})

    @override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": {"max_result_bytes": 100}}})
    def test_a_result_that_is_too_large(self):
        self.assertEqual(run(tasks.big, 50).return_value, "x" * 50)
        with self.assertLogs("django.tasks", "ERROR"):
            result = run(tasks.big, 500)
        self.assertIn("max_result_bytes", result.errors[0].traceback)

    def test_the_context_of_a_task(self):
        result = tasks.tell_context.enqueue(7)
        drain()
        result.refresh()
        self.assertEqual(result.return_value, [result.id, "RUNNING", 1, result.worker_ids, [7]])
        again = run(tasks.atell_context)
        self.assertEqual(again.return_value, [again.id, 1])

    def test_a_job_of_a_task_that_is_gone_raises_and_stays(self):
        result = tasks.add.enqueue(1)
        Job.objects.update(task="tests.taskbackend.shop.tasks.removed")

        with self.assertRaises(UnknownTaskError):
            drain()
        self.assertEqual(Job.objects.get(pk=result.id).status, "queued")
        self.assertEqual(Job.objects.get(pk=result.id).attempts, 0)

    def test_names_outside_of_the_installed_apps_are_not_imported(self):
        for path in ("os.system", "antigravity.fly", "tests.taskbackend.test_drain.run", "nothing", "a.b.c", ".x"):
            with self.subTest(path=path):
                tasks.add.enqueue(1)
                Job.objects.update(task=path)
                with self.assertRaises(UnknownTaskError):
                    drain()
                Job.objects.all().delete()

    def test_arguments_nobody_can_read_fail_the_job(self):
        result = tasks.add.enqueue(1)
        Job.objects.update(payload=b"not json")
        with self.assertLogs("django.tasks", "ERROR"):
            drain()
        result.refresh()

        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIn("SerializationError", result.errors[0].exception_class_path)

    def test_a_cancelled_job_reads_as_failed(self):
        from django.tasks import default_task_backend

        from tinyjobs.core.inline import finish

        result = tasks.add.enqueue(1)
        self.assertTrue(finish(default_task_backend.shared.store.cancel(result.id)))
        result.refresh()

        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertEqual(result.errors[-1].exception_class.__name__, "JobCancelled")

    def test_the_query_log_of_the_test_is_left_alone(self):
        tasks.count_orders.enqueue()
        # The job's own query in a savepoint, and a claim and a record: one statement each, or two to four in another.
        with self.assertNumQueries({"sqlite": 12, "postgresql": 5}[connection.vendor]):
            drain(limit=1)


class LeftBehindTests(TestCase):
    """What jobs leave behind in the middle of a test's transaction."""

    def test_an_open_block_is_rolled_back(self):
        depth = len(connection.savepoint_ids)
        with self.assertLogs("django.tasks", "ERROR"):
            run(tasks.enter_atomic_and_raise)

        self.assertEqual(Order.objects.count(), 0)
        self.assertEqual(run(tasks.place_order, "next").status, "SUCCESSFUL")
        self.assertEqual((Order.objects.count(), len(connection.savepoint_ids)), (1, depth))

    def test_an_error_swallowed_inside_a_block(self):
        run(tasks.swallow_inside_atomic)

        self.assertFalse(connection.needs_rollback)
        self.assertEqual(run(tasks.place_order, "next").status, "SUCCESSFUL")

    def test_autocommit_cannot_be_turned_off_inside_a_test(self):
        with self.assertLogs("django.tasks", "ERROR"):
            self.assertEqual(run(tasks.autocommit_off).status, "FAILED")
        self.assertEqual(run(tasks.place_order, "next").status, "SUCCESSFUL")

    def test_language_and_time_zone(self):
        with translation.override("fr"):
            run(tasks.spoil_translation)
            self.assertEqual(translation.get_language(), "fr")
        self.assertEqual(run(tasks.language).return_value, ["en-us", "UTC"])

    def test_callbacks_for_the_commit_are_those_of_what_was_kept(self):
        with self.captureOnCommitCallbacks() as callbacks:
            with self.assertLogs("django.tasks", "ERROR"):
                run(tasks.register_inside_open_block)
            run(tasks.register_on_commit)

        self.assertEqual(len(callbacks), 1)


class OutsideATransactionTests(TransactionTestCase):
    """The same where the test has no transaction open."""

    def test_what_is_left_behind(self):
        for task in (tasks.autocommit_off, tasks.swallow_inside_atomic):
            run(task)
            self.assertTrue(connection.get_autocommit())
        with self.assertLogs("django.tasks", "ERROR"):
            run(tasks.enter_atomic_and_raise)
        run(tasks.close_raw_connection)

        self.assertFalse(connection.in_atomic_block)
        self.assertEqual(run(tasks.place_order, "next").status, "SUCCESSFUL")
        with transaction.atomic():
            names = set(Order.objects.values_list("name", flat=True))
        self.assertEqual(names & {"left open", "left inside", "next"}, {"next"})


class SignalTests(TestCase):
    def setUp(self):
        tasks.ran.clear()
        self.heard = []
        for signal in (task_started, task_finished):
            signal.connect(self.hear)
            self.addCleanup(signal.disconnect, self.hear)

    def hear(self, signal, sender, task_result, **kwargs):
        self.heard.append(("started" if signal is task_started else "finished", task_result))

    def test_each_is_sent_once_with_what_get_result_gives(self):
        result = tasks.add.enqueue(1, 2)
        drain()
        result.refresh()

        (first, started), (second, finished) = self.heard
        self.assertEqual((first, second), ("started", "finished"))
        self.assertEqual((started.status, started.attempts), ("RUNNING", 1))
        self.assertEqual(finished, tasks.add.get_result(result.id))
        self.assertEqual(finished.return_value, 3)

    def test_a_failure(self):
        result = tasks.fail.enqueue("no")
        with self.assertLogs("django.tasks", "ERROR") as logged:
            drain()

        self.assertEqual(self.heard[-1][1], tasks.fail.get_result(result.id))
        self.assertIn("ValueError: no", logged.output[0])
        self.assertEqual(logged.output[0].count("Traceback"), 1)

    def test_an_attempt_that_runs_again_has_not_finished(self):
        clock = FrozenClock(2_000_000_000.0)
        use_clock(clock)
        self.addCleanup(use_clock, None)
        result = tasks.flaky.enqueue(1)
        drain()
        self.assertEqual([kind for kind, _ in self.heard], ["started"])
        clock.advance(60)
        drain()

        self.assertEqual([kind for kind, _ in self.heard], ["started", "started", "finished"])
        self.assertEqual(self.heard[1][1].attempts, 2)
        self.assertEqual(self.heard[2][1], tasks.flaky.get_result(result.id))

    def test_djangos_log_lines(self):
        task_started.disconnect(self.hear)
        task_finished.disconnect(self.hear)
        with self.assertLogs("django.tasks", "DEBUG") as logged:
            run(tasks.add, 1)

        self.assertEqual([line.rpartition(" ")[2] for line in logged.output[1:]], ["state=RUNNING", "state=SUCCESSFUL"])


class EagerTests(TestCase):
    def setUp(self):
        tasks.ran.clear()

    def test_each_job_runs_before_enqueue_returns(self):
        with eager():
            self.assertEqual(tasks.add.enqueue(1, 2).return_value, 3)
            self.assertEqual([entry.return_value for entry in tasks.add.enqueue_many([(1, 1), (2, 2)])], [2, 4])
            self.assertEqual(tasks.aadd.enqueue(1, 2).return_value, 3)
            later = tasks.add.using(run_after=timezone.now() + datetime.timedelta(hours=1)).enqueue(1)
            self.assertEqual(later.status, "READY")
        self.assertEqual(tasks.add.enqueue(1).status, "READY")

    @eager()
    def test_as_a_decorator_and_only_the_job_that_was_sent(self):
        with override_settings(TASKS={"default": {"BACKEND": OURS}}):
            waiting = tasks.add.enqueue(1)
        self.assertEqual(tasks.send_another.enqueue("nested").return_value, "sent")
        waiting.refresh()

        self.assertEqual(waiting.status, "READY")
        self.assertTrue(Order.objects.filter(name="nested").exists())

    @eager()
    async def test_from_async_code(self):
        self.assertEqual((await tasks.aadd.aenqueue(1, 2)).return_value, 3)

    @eager()
    def test_an_interrupt_passes_and_an_exit_fails_the_job(self):
        with self.assertRaises(KeyboardInterrupt):
            tasks.interrupt.enqueue()
        with self.assertLogs("django.tasks", "ERROR"):
            result = tasks.leave.enqueue()
        self.assertIs(result.errors[0].exception_class, SystemExit)

    @override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": {"url": "memory://", "eager": True}}})
    def test_on_a_store_of_its_own(self):
        self.assertEqual(tasks.add.enqueue(1, 2).return_value, 3)
        self.assertEqual(tasks.count_orders.enqueue().return_value, 0)


@override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": {"url": "memory://"}}})
class StoreOfItsOwnTests(TestCase):
    def test_a_drain_sends_what_waits_for_the_commit_first(self):
        result = tasks.send_another.enqueue("second")

        self.assertEqual(drain(), 2)
        result.refresh()
        self.assertEqual(result.return_value, "sent")
        self.assertTrue(Order.objects.filter(name="second").exists())


class AssertionTests(TestCase):
    def test_what_waits_can_be_looked_at(self):
        self.assertEqual(enqueued_jobs(), [])
        assert_not_enqueued()
        first = tasks.add.enqueue(1, b=2)
        second = tasks.noop.using(priority=5, key="k").enqueue()

        self.assertEqual(enqueued_jobs(), [first, second])
        self.assertEqual(enqueued_jobs(tasks.add), [first])
        self.assertEqual(assert_enqueued(tasks.add, [1], {"b": 2}, times=1), first)
        self.assertEqual(assert_enqueued(tasks.noop, priority=5, key="k", queue_name="default"), second)
        for fails in (
            lambda: assert_enqueued(tasks.add, [2]),
            lambda: assert_enqueued(tasks.add, times=2),
            lambda: assert_enqueued(tasks.fail),
            lambda: assert_not_enqueued(tasks.add),
            assert_not_enqueued,
        ):
            with self.assertRaisesMessage(AssertionError, "tests.taskbackend.shop.tasks"):
                fails()
        drain()
        assert_not_enqueued()

    def test_more_than_a_page(self):
        tasks.noop.enqueue_many([()] * 1_001)

        self.assertEqual(len(enqueued_jobs(tasks.noop)), 1_001)
