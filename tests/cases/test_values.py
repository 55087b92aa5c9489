"""Arguments and results that have brought queues down: refused where they are passed, never altered in silence."""

import dataclasses
import enum
import io

from django.core.management import call_command
from django.test import TestCase, override_settings

from tests.taskbackend.shop import tasks
from tinyjobs import codec
from tinyjobs.core.errors import SerializationError
from tinyjobs.models import Job
from tinyjobs.testing import drain


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


@codec.register_enum
class Colour(enum.Enum):
    RED = "red"


@codec.register_dataclass
@dataclasses.dataclass
class Amount:
    cents: int
    colour: Colour


class RegisteredTypesTests(TestCase):
    value = [Amount(5, Colour.RED), {Colour.RED: 1}]

    def test_they_come_back_as_themselves_under_every_alias_and_change_of_settings(self):
        for bound in (1_000, 2_000):
            options = {"rich_arguments": True, "max_result_bytes": bound}
            entry = {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}
            with override_settings(TASKS={"default": entry}):
                result = tasks.plain.enqueue(*self.value)
                drain()
                result.refresh()
                self.assertEqual(result.args, self.value)
                self.assertEqual(result.return_value, [tuple(self.value), {}])

    def test_the_command_shows_them(self):
        entry = {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"rich_arguments": True}}
        with override_settings(TASKS={"default": entry}):
            result = tasks.noop.enqueue(*self.value)
            out = io.StringIO()
            call_command("tinyjobs", "jobs", "show", result.id, stdout=out)
        self.assertIn("RED", out.getvalue())

    def test_without_rich_arguments_djangos_rule_holds(self):
        with self.assertRaisesMessage(TypeError, "Unsupported type"):
            tasks.noop.enqueue(*self.value)
