"""Django's pattern for a task class with options of its own, on our task class and through our decorator.

Django 6.0 has neither the pattern's tests nor keywords for options in its own decorator, so there only these run.
"""

import dataclasses
import pickle
from copy import deepcopy
from unittest import skipIf

import django
from django.test import TestCase, override_settings
from tasks import tasks as test_tasks

from tinyjobs import TinyJobsBackend, task

Task = TinyJobsBackend.task_class
DEFAULTS = {field.name: field.default for field in dataclasses.fields(Task)}


@task(max_attempts=7, timeout=30, priority=5)
def task_with_options():
    return "done"


@override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": ["default", "high"]}})
class TaskClassTestCase(TestCase):
    def test_default_values(self):
        plain = task()(test_tasks.noop_task.func)

        self.assertIs(type(plain), Task)
        self.assertEqual(plain.max_attempts, DEFAULTS["max_attempts"])
        self.assertEqual(plain.timeout, DEFAULTS["timeout"])

    def test_own_values(self):
        self.assertIs(type(task_with_options), Task)
        self.assertEqual(task_with_options.max_attempts, 7)
        self.assertEqual(task_with_options.timeout, 30)

    def test_standard_and_own_values(self):
        mixed = task(priority=10, queue_name="high", max_attempts=4, timeout=2)(test_tasks.noop_task.func)

        self.assertEqual((mixed.priority, mixed.queue_name), (10, "high"))
        self.assertEqual((mixed.max_attempts, mixed.timeout), (4, 2))
        self.assertFalse(mixed.takes_context)
        self.assertIsNone(mixed.run_after)

    def test_unknown_keyword(self):
        with self.assertRaises(TypeError):
            task(unknown_param=123)(test_tasks.noop_task.func)

    def test_own_values_survive_using(self):
        changed = task_with_options.using(queue_name="high")

        self.assertEqual((changed.max_attempts, changed.timeout), (7, 30))
        self.assertEqual((changed.priority, changed.queue_name), (5, "high"))

    def test_own_values_survive_the_store(self):
        result = task_with_options.enqueue()
        stored = task_with_options.get_result(result.id)

        self.assertEqual(stored.task, task_with_options)
        self.assertEqual(stored, result)

    @skipIf(django.VERSION < (6, 1), "not applicable: before 6.1 Django's tasks cannot be pickled")
    def test_pickle(self):
        changed = task_with_options.using(priority=6)

        self.assertEqual(pickle.loads(pickle.dumps(task_with_options)), task_with_options)
        self.assertEqual(pickle.loads(pickle.dumps(changed)), changed)
        self.assertEqual(pickle.loads(pickle.dumps(changed)).max_attempts, 7)

    @skipIf(django.VERSION < (6, 1), "not applicable: before 6.1 Django's tasks cannot be pickled")
    def test_pickle_result(self):
        result = task_with_options.enqueue()

        self.assertEqual(pickle.loads(pickle.dumps(result)), result)
        self.assertEqual(deepcopy(result), result)
