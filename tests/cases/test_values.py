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


class KeysTests(TestCase):
    def test_two_keys_never_become_one(self):
        for value in ({b"a": 1, "a": 2}, {"deep": [{"b": 1, b"b": 2}]}):
            with self.subTest(value=value), self.assertRaisesMessage(SerializationError, "would both be stored as"):
                tasks.noop.enqueue(value)
        self.assertFalse(Job.objects.exists())

    def test_keys_that_look_alike_stay_apart(self):
        value = {1: "int", "1": "text", None: 0, "None": 1, False: 2, "false": 3, 1.5: 4, "1.5": 5}
        result = tasks.noop.enqueue(value)
        ((stored,), (sent,)) = tasks.noop.get_result(result.id).args, result.args
        for kept in (stored, sent):
            self.assertEqual(kept, value)
            self.assertEqual(list(map(type, kept)), list(map(type, value)))

    def test_a_key_json_has_no_word_for_is_named(self):
        for key in ((1, 2), frozenset(), object()):
            with self.subTest(key=key), self.assertRaisesMessage(TypeError, "Unsupported type"):
                tasks.noop.enqueue({key: 1})
