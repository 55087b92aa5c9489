"""Arguments and results that have brought queues down: refused where they are passed, never altered in silence."""

from django.test import TestCase

from tests.taskbackend.shop import tasks
from tinyjobs.core.errors import SerializationError
from tinyjobs.models import Job


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


class NestedTests(TestCase):
    def test_arguments_nested_too_deep_are_an_error_of_the_enqueue(self):
        for levels in (300, 500, 990, 2_000, 100_000):
            with self.subTest(levels=levels), self.assertRaisesMessage(SerializationError, "nested"):
                tasks.noop.enqueue(nested(levels))
            with self.subTest(levels=levels), self.assertRaisesMessage(SerializationError, "nested"):
                tasks.noop.enqueue(a={"b": nested(levels)})
        self.assertFalse(Job.objects.exists())

    def test_a_cycle_too(self):
        circle = {"a": []}
        circle["a"].append(circle)
        with self.assertRaisesMessage(SerializationError, "contains itself"):
            tasks.noop.enqueue(circle)
        with self.assertRaisesMessage(SerializationError, "contains itself"):
            tasks.noop.enqueue_many([(1,), (circle,)])
        self.assertFalse(Job.objects.exists())

    def test_what_is_nested_within_the_bound_comes_back(self):
        value = nested(150)
        result = tasks.noop.enqueue(value)
        self.assertEqual(tasks.noop.get_result(result.id).args, [value])
