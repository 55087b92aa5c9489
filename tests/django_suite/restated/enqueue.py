"""Tests of Django's that could not be kept as they stand, said again for a backend that asks a database."""

import dataclasses

from django.tasks import TaskResultStatus
from django.test import TestCase, override_settings
from tasks import tasks as test_tasks


@override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend"}})
class RestatedEnqueueTestCase(TestCase):
    def test_refresh_a_new_result(self):
        result = test_tasks.noop_task.enqueue(1, two=3)
        before = dataclasses.asdict(result)

        result.refresh()

        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertEqual(dataclasses.asdict(result), before)

    async def test_arefresh_a_new_result(self):
        result = await test_tasks.noop_task.aenqueue(1, two=3)
        before = dataclasses.asdict(result)

        await result.arefresh()

        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertEqual(dataclasses.asdict(result), before)
