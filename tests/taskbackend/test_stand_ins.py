"""Tests of a project on other task backends: the decorator works everywhere, and values are those of the real one."""

import pytest
from django.tasks import default_task_backend, task_backends
from django.tasks.backends.dummy import DummyBackend as DjangoDummy
from django.test import SimpleTestCase, TestCase, override_settings

from tests.taskbackend.shop import tasks
from tinyjobs import task
from tinyjobs.taskbackend.task import Task
from tinyjobs.testing import DummyBackend, ImmediateBackend

DUMMY, IMMEDIATE, OURS = (
    "tinyjobs.testing.DummyBackend",
    "tinyjobs.testing.ImmediateBackend",
    "tinyjobs.TinyJobsBackend",
)


def under(path):
    return override_settings(TASKS={"default": {"BACKEND": path}})


def declared():
    return task(max_attempts=5, timeout=30, key="k")(tasks.add.func)


@pytest.mark.parametrize(
    "path",
    [
        DUMMY,
        IMMEDIATE,
        OURS,
        "django.tasks.backends.dummy.DummyBackend",
        "django.tasks.backends.immediate.ImmediateBackend",
    ],
)
def test_the_decorator_takes_its_options_under_any_backend(path):
    with under(path):
        made = declared()
    assert (type(made), made.max_attempts, made.timeout, made.key) == (Task, 5, 30, "k")


class OtherTask(Task):
    """What a backend with a task class of its own may have."""


class OtherBackend(DjangoDummy):
    task_class = OtherTask


def test_a_class_of_another_backend_is_respected():
    with under(f"{__name__}.OtherBackend"):
        assert type(declared()) is OtherTask


class StandInTests(SimpleTestCase):
    @under(IMMEDIATE)
    def test_immediate(self):
        self.assertIsInstance(task_backends["default"], ImmediateBackend)
        self.assertEqual(tasks.add.enqueue(1, 2).return_value, 3)
        results = tasks.add.using(key="k", max_attempts=4).enqueue_many([(1, 1), {"a": 5}])
        self.assertEqual([result.return_value for result in results], [2, 6])

    @under(DUMMY)
    def test_dummy(self):
        self.assertIsInstance(task_backends["default"], DummyBackend)
        tasks.add.enqueue_many([(1, 1), {"a": 5}])
        self.assertEqual([result.kwargs for result in default_task_backend.results], [{}, {"a": 5}])

    @under(DUMMY)
    async def test_from_async_code(self):
        await tasks.add.aenqueue_many([(1, 1), {"a": 5}])
        self.assertEqual(len(default_task_backend.results), 2)

    @under("django.tasks.backends.immediate.ImmediateBackend")
    def test_bulk_on_djangos_own(self):
        self.assertEqual([result.return_value for result in tasks.add.enqueue_many([(1, 1)])], [2])


class SameValuesTests(TestCase):
    def test_what_production_refuses_is_refused_in_tests(self):
        for args, kwargs in ((object(),), {}), (({1},), {}), ((1, 2, 3, 4), {}), ((), {}), ((1,), {"zzz": 1}):
            raised = set()
            for path in (DUMMY, IMMEDIATE, OURS):
                with under(path), self.assertRaises(TypeError) as error:
                    tasks.add.enqueue(*args, **kwargs)
                raised.add(str(error.exception))
            self.assertEqual(len(raised), 1, raised)

    def test_the_function_gets_the_same_values(self):
        given = [(1, (2, 3)), {"a": b"text"}, True, None, 1.5]
        received = []
        for path in (IMMEDIATE, OURS):
            tasks.ran.clear()
            with under(path), override_eager(path):
                tasks.plain.enqueue(*given)
            received.append(tasks.ran[0])
        self.assertEqual(received[0], received[1])
        self.assertEqual(received[0][1][:2], ([1, [2, 3]], {"a": "text"}))
        self.assertIsNot(received[0][1][1], given[1])


def override_eager(path):
    options = {"eager": True} if path == OURS else {}
    return override_settings(TASKS={"default": {"BACKEND": path, "OPTIONS": options}})
