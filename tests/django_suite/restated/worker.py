"""Tests of Django's that could not be kept as they stand, said again for jobs that a worker runs."""

from django.tasks import TaskResultStatus
from django.test import TransactionTestCase, override_settings
from tasks import tasks as test_tasks
from tasks.running import aran, ran


@override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend"}})
class RestatedWorkerTestCase(TransactionTestCase):
    def test_worker_outlives_a_keyboard_interrupt_of_the_task(self):
        failing = test_tasks.failing_task_keyboard_interrupt.enqueue()

        with self.assertLogs("django.tasks", level="ERROR"):
            after = ran(test_tasks.calculate_meaning_of_life.enqueue())
        failing.refresh()

        self.assertEqual(failing.status, TaskResultStatus.FAILED)
        self.assertEqual([error.exception_class for error in failing.errors], [KeyboardInterrupt])
        self.assertEqual((after.status, after.return_value), (TaskResultStatus.SUCCESSFUL, 42))

    def test_worker_is_recorded_with_each_job(self):
        first = test_tasks.noop_task.enqueue()
        second = ran(test_tasks.noop_task_async.enqueue())
        first.refresh()
        third = ran(test_tasks.noop_task.enqueue())

        self.assertEqual([result.attempts for result in (first, second, third)], [1, 1, 1])
        self.assertEqual(first.worker_ids, second.worker_ids)
        self.assertNotEqual(first.worker_ids, third.worker_ids)

    async def test_result_of_a_job_that_was_sent_from_a_coroutine(self):
        result = await aran(await test_tasks.calculate_meaning_of_life.aenqueue())

        self.assertEqual((result.status, result.return_value), (TaskResultStatus.SUCCESSFUL, 42))
