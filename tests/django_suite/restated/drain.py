"""Tests of Django's that could not be kept as they stand, said again for jobs that run after they are enqueued."""

from django.tasks import TaskResultStatus, default_task_backend
from django.test import TestCase, override_settings
from tasks import tasks as test_tasks
from tasks.running import ran

from tinyjobs.testing import drain


@override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"eager": True}}})
class RestatedEagerTestCase(TestCase):
    def test_eager_mode_throws_keyboard_interrupt(self):
        with self.assertRaises(KeyboardInterrupt):
            with self.assertNoLogs("django.tasks", level="ERROR"):
                default_task_backend.enqueue(test_tasks.failing_task_keyboard_interrupt, [], {})


@override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend"}})
class RestatedWorkerTestCase(TestCase):
    def test_drain_throws_keyboard_interrupt(self):
        default_task_backend.enqueue(test_tasks.failing_task_keyboard_interrupt, [], {})

        with self.assertRaises(KeyboardInterrupt):
            with self.assertNoLogs("django.tasks", level="ERROR"):
                drain()

    def test_drain_runs_what_was_enqueued_and_nothing_twice(self):
        first = test_tasks.calculate_meaning_of_life.enqueue()
        second = ran(test_tasks.get_task_id.enqueue())
        first.refresh()
        drain()
        again = default_task_backend.get_result(second.id)

        self.assertEqual((first.status, first.return_value), (TaskResultStatus.SUCCESSFUL, 42))
        self.assertEqual((second.status, second.return_value), (TaskResultStatus.SUCCESSFUL, second.id))
        self.assertEqual(again, second)
        self.assertEqual(again.attempts, 1)
