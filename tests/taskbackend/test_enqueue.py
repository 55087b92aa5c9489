"""Sending through the task backend: what is validated, what is kept, and what comes back."""

import datetime
import enum
import pickle
from collections import OrderedDict
from copy import deepcopy
from unittest import mock
from uuid import UUID

import pytest
from django.db import connection
from django.tasks import TaskResultStatus, default_task_backend
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist, TaskResultMismatch
from django.tasks.signals import task_enqueued
from django.test import TestCase, override_settings
from django.utils import timezone
from django.utils.safestring import mark_safe

from tests.taskbackend.shop import tasks
from tinyjobs.core.errors import SerializationError, UnknownTaskError
from tinyjobs.models import Job
from tinyjobs.taskbackend.backend import TinyJobsBackend
from tinyjobs.taskbackend.task import Task

OURS = "tinyjobs.TinyJobsBackend"


def tasks_setting(queues=None, **options):
    entry = {"BACKEND": OURS, "OPTIONS": options}
    if queues is not None:
        entry["QUEUES"] = queues
    return override_settings(TASKS={"default": entry})


class EnqueueTests(TestCase):
    def test_one_enqueue_is_one_query_and_one_row(self):
        tasks.add.enqueue(0)

        with self.assertNumQueries(1):
            result = tasks.add.enqueue(1, b=2)

        row = Job.objects.get(pk=result.id)
        self.assertEqual((row.task, row.queue, row.status), ("tests.taskbackend.shop.tasks.add", "default", "queued"))
        self.assertEqual(bytes(row.payload), b'[[1],{"b":2}]')
        self.assertEqual(result.status, TaskResultStatus.READY)

    def test_what_is_read_back_equals_what_enqueue_answered(self):
        tuned = tasks.flaky.using(priority=7, max_attempts=5, key="k")
        for task, args in ((tasks.add, (1, 2)), (tasks.plain, (1,)), (tasks.aadd, (1, 2)), (tuned, ())):
            with self.subTest(task=task.name):
                result = task.enqueue(*args)
                stored = task.get_result(result.id)

                self.assertEqual(stored, result)
                self.assertEqual(stored.task, task)

    def test_a_job_nobody_took_is_read_with_one_query(self):
        result = tasks.add.enqueue(1)

        with self.assertNumQueries(1):
            result.refresh()

    def test_the_time_asked_for_is_kept_to_the_microsecond(self):
        when = datetime.datetime(2931, 5, 6, 7, 8, 9, 123457, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))
        result = tasks.add.using(run_after=when).enqueue(1)

        stored = tasks.add.get_result(result.id)

        self.assertEqual(stored.task.run_after, when)
        self.assertAlmostEqual(Job.objects.get().due_at, when.timestamp(), places=3)
        self.assertIsNone(Job.objects.get().ready_at)

    def test_a_timedelta_is_counted_from_now(self):
        before = timezone.now()
        task = tasks.plain.using(run_after=datetime.timedelta(hours=1))
        own = tasks.add.using(run_after=datetime.timedelta(hours=1))

        for made in (task, own):
            hour = datetime.timedelta(hours=1)
            self.assertTrue(before + hour <= made.run_after <= timezone.now() + hour)
        self.assertEqual(own.enqueue(1).task.run_after, own.run_after)

    def test_a_time_long_ago_means_now_and_one_too_far_is_refused(self):
        past = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
        tasks.add.using(run_after=past).enqueue(1)
        self.assertIsNotNone(Job.objects.get().ready_at)

        too_far = datetime.datetime.max.replace(tzinfo=datetime.timezone(-datetime.timedelta(hours=12)))
        with self.assertRaisesMessage(InvalidTask, "9998"):
            tasks.add.using(run_after=too_far).enqueue(1)

    def test_arguments_are_told_by_the_signature(self):
        for args, kwargs in ((), {}), ((1, 2, 3), {}), ((1,), {"c": 2}), ((1,), {"a": 2}):
            with self.subTest(args=args, kwargs=kwargs), self.assertRaisesMessage(TypeError, "shop.tasks.add"):
                tasks.add.enqueue(*args, **kwargs)
        tasks.tell_context.enqueue(1, 2)
        with self.assertRaises(TypeError):
            tasks.tell_context.enqueue(no=1)
        self.assertEqual(Job.objects.count(), 1)

    def test_arguments_follow_djangos_rule(self):
        result = tasks.noop.enqueue((1, 2), mapping={"a": (b"text", None)})
        self.assertEqual(result.args, [[1, 2]])
        self.assertEqual(result.kwargs, {"mapping": {"a": ["text", None]}})
        self.assertEqual(tasks.noop.get_result(result.id), result)
        for value in ({1}, datetime.datetime.now(datetime.UTC), UUID(int=1), object()):
            with self.subTest(value=value), self.assertRaisesMessage(TypeError, "Unsupported type"):
                tasks.noop.enqueue(value)

    def test_subclasses_of_text_and_numbers_become_what_they_are_made_of(self):
        values = [mark_safe("<b>"), TaskResultStatus.READY, Suit.HEARTS, OrderedDict(a=Shout("x")), True]
        result = tasks.noop.enqueue(*values)

        self.assertEqual(result.args, ["<b>", "READY", 2, {"a": "x"}, True])
        self.assertEqual([type(value) for value in result.args], [str, str, int, dict, bool])
        self.assertEqual(tasks.noop.get_result(result.id), result)

    def test_keys_of_dictionaries_stay_what_they_are(self):
        self.assertEqual(run_through(tasks.noop, {1: "a", "1": "b", None: "c"}), [{1: "a", "1": "b", None: "c"}])

    def test_odd_values_come_back_the_same(self):
        odd = [float("inf"), -0.0, 2**70, "a\0b", "\ud800", {"$t": "set", "$v": [1]}, 10**400]
        self.assertEqual(run_through(tasks.noop, *odd), odd)
        deep = []
        for _ in range(2_000):
            deep = [deep]
        with self.assertRaises((TypeError, RecursionError)):
            tasks.noop.enqueue(deep)

    def test_what_is_sent_is_a_copy(self):
        values = [[1]]
        result = tasks.noop.enqueue(values)
        values[0].append(2)

        self.assertEqual(result.args, [[[1]]])

    @tasks_setting(rich_arguments=True)
    def test_rich_arguments_come_back_as_they_were(self):
        values = (1, 2), {3}, UUID(int=4), datetime.date(2026, 11, 29)
        result = tasks.noop.enqueue(*values)

        self.assertEqual(result.args, list(values))
        self.assertEqual(tasks.noop.get_result(result.id).args, list(values))
        with self.assertRaisesMessage(SerializationError, "args[0]"):
            tasks.noop.enqueue(object())

    def test_pickle_has_to_be_allowed(self):
        with self.assertRaisesMessage(InvalidTask, "allow_pickle"):
            Task(func=tasks.noop.func, codec="pickle")

    @tasks_setting(allow_pickle=True)
    def test_pickled_arguments(self):
        with mock.patch.object(tasks, "noop", Task(func=tasks.noop.func, codec="pickle")):
            result = tasks.noop.enqueue({1: {2}})

            self.assertEqual(Job.objects.get().codec, "pickle")
            self.assertEqual(tasks.noop.get_result(result.id).args, [{1: {2}}])
            with tasks_setting(allow_pickle=True, refuse_pickle=True), self.assertRaises(InvalidTask):
                tasks.noop.enqueue(1)

    def test_a_task_no_worker_would_find_is_not_sent(self):
        homeless = Task(func=homeless_function)
        with self.assertRaisesMessage(InvalidTask, "INSTALLED_APPS"):
            homeless.enqueue()
        with self.assertRaisesMessage(InvalidTask, "no task at"):
            tasks.under_another_name.enqueue(1)

    def test_results_that_are_not_there(self):
        for job_id in ("no-such-id", "01a2", "", "\0", "ä" * 10, "x" * 5_000, 12, None):
            with self.subTest(job_id=job_id), self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(job_id)
        result = tasks.add.enqueue(1)
        with self.assertRaises(TaskResultMismatch):
            tasks.noop.get_result(result.id)

    def test_the_code_of_a_stored_job_is_gone(self):
        result = tasks.add.enqueue(1)
        Job.objects.update(task="tests.taskbackend.shop.tasks.removed")

        with self.assertRaisesMessage(UnknownTaskError, "shop.tasks.removed"):
            default_task_backend.get_result(result.id)

    def test_results_can_be_pickled_and_copied(self):
        result = tasks.flaky.using(key="a", priority=3).enqueue()

        self.assertEqual(pickle.loads(pickle.dumps(result)), result)
        self.assertEqual(deepcopy(result), result)
        self.assertEqual(pickle.loads(pickle.dumps(result.task)), result.task)

    async def test_aenqueue_writes_on_the_same_connection(self):
        result = await tasks.add.aenqueue(1, 2)

        self.assertEqual(await Job.objects.acount(), 1)
        self.assertEqual(await tasks.add.aget_result(result.id), result)
        await result.arefresh()
        many = await tasks.add.aenqueue_many([(1,), {"a": 2}])
        self.assertEqual([entry.args for entry in many], [[1], []])

    @override_settings(USE_TZ=False)
    def test_without_time_zones_datetimes_are_naive(self):
        when = datetime.datetime(2030, 1, 2, 3, 4, 5, 678901)
        result = tasks.add.using(run_after=when).enqueue(1)

        stored = tasks.add.get_result(result.id)
        self.assertEqual(stored, result)
        self.assertEqual(stored.task.run_after, when)
        self.assertIsNone(stored.enqueued_at.tzinfo)
        self.assertIsNone(tasks.add.using(run_after=datetime.timedelta(1)).run_after.tzinfo)
        self.assertAlmostEqual(Job.objects.get().due_at, when.timestamp(), places=5)


def run_through(task, *args):
    return task.get_result(task.enqueue(*args).id).args


class Suit(enum.IntEnum):
    HEARTS = 2


class Shout(str):
    def __str__(self):
        return self.upper()


def homeless_function():
    pass


homeless_function.__module__ = "os.path"


class KeyTests(TestCase):
    def test_a_second_enqueue_gives_back_the_first_job(self):
        first = tasks.add.using(key="one").enqueue(1)
        heard = []
        with heard_enqueues(heard):
            second = tasks.add.using(key="one").enqueue(2)

        self.assertEqual((second.id, second.args), (first.id, [1]))
        self.assertTrue(second.existing)
        self.assertFalse(first.existing)
        self.assertEqual(second, first)
        self.assertEqual((Job.objects.count(), heard), (1, []))

    def test_a_conflict_leaves_the_transaction_usable(self):
        tasks.add.using(key="one").enqueue(1)
        tasks.add.using(key="one").enqueue(2)

        tasks.add.enqueue(3)
        self.assertEqual(Job.objects.count(), 2)

    def test_a_key_that_cannot_be_kept(self):
        for key in ("", "a\0b", "\ud800", "x" * 2_000, 7):
            with self.subTest(key=key), self.assertRaises(InvalidTask):
                tasks.add.using(key=key)


class EnqueueManyTests(TestCase):
    def test_order_and_one_signal_each(self):
        heard = []
        with heard_enqueues(heard):
            results = tasks.add.enqueue_many([(42,), [43, 2], {"a": 44}])

        self.assertEqual(
            [(entry.args, entry.kwargs) for entry in results], [([42], {}), ([43, 2], {}), ([], {"a": 44})]
        )
        self.assertEqual([entry.id for entry in heard], [entry.id for entry in results])
        self.assertEqual([entry.id for entry in results], list(Job.objects.order_by("id").values_list("id", flat=True)))
        for entry in results:
            self.assertEqual(tasks.add.get_result(entry.id), entry)

    def test_all_or_none(self):
        for item in ((1, 2, 3), ({1},), "text", 7, None, {"c": 1}):
            with self.subTest(item=item), self.assertRaisesRegex(TypeError, "^item 1 of enqueue_many"):
                tasks.add.enqueue_many([(1,), item])
        self.assertEqual(Job.objects.count(), 0)

    def test_nothing_to_send(self):
        with self.assertNumQueries(0):
            self.assertEqual(tasks.add.enqueue_many([]), [])

    def test_equal_keys_in_one_call_become_the_first(self):
        results = tasks.add.using(key="same").enqueue_many([(1,), (2,)])

        self.assertEqual(results[0].id, results[1].id)
        self.assertEqual([entry.existing for entry in results], [False, True])
        self.assertEqual(results[1].args, [1])
        self.assertEqual(Job.objects.count(), 1)

    def test_a_generator_of_many_in_few_statements(self):
        with self.assertNumQueries(6):  # a savepoint around four bounded statements
            results = tasks.add.enqueue_many((number,) for number in range(20_000))

        self.assertEqual(len(results), 20_000)
        self.assertEqual(Job.objects.count(), 20_000)

    def test_after_a_refusal_of_the_database_the_transaction_goes_on(self):
        class Broken(Exception):
            pass

        def refuse(execute, sql, params, many, context):
            if "INSERT" in sql:
                raise Broken
            return execute(sql, params, many, context)

        with connection.execute_wrapper(refuse), self.assertRaises(Broken):
            tasks.add.enqueue_many([(1,)])

        tasks.add.enqueue(2)
        self.assertEqual(Job.objects.count(), 1)


class heard_enqueues:
    """Collect the results that `task_enqueued` tells of."""

    def __init__(self, into):
        self.into = into

    def __enter__(self):
        task_enqueued.connect(self.hear)

    def __exit__(self, *exc):
        task_enqueued.disconnect(self.hear)

    def hear(self, sender, task_result, **kwargs):
        assert sender is TinyJobsBackend
        self.into.append(task_result)


class SignalTests(TestCase):
    def test_the_row_is_there_when_the_signal_is_sent(self):
        seen = []

        def receiver(sender, task_result, **kwargs):
            seen.append(Job.objects.filter(pk=task_result.id).exists())

        task_enqueued.connect(receiver)
        self.addCleanup(task_enqueued.disconnect, receiver)
        tasks.add.enqueue(1)

        self.assertEqual(seen, [True])

    def test_a_receiver_that_raises_does_not_undo_the_enqueue(self):
        def receiver(sender, task_result, **kwargs):
            raise RuntimeError("receiver")

        task_enqueued.connect(receiver)
        self.addCleanup(task_enqueued.disconnect, receiver)
        with self.assertLogs("django.dispatch", "ERROR"):
            tasks.add.enqueue(1)

        self.assertEqual(Job.objects.count(), 1)

    def test_djangos_logger_is_told(self):
        with self.assertLogs("django.tasks", "DEBUG") as logged:
            result = tasks.add.enqueue(1)

        self.assertIn(result.id, logged.output[0])


class ValidationTests(TestCase):
    def test_options_of_a_task_that_cannot_work(self):
        wrong = {
            "timeout": (0, -1, float("nan"), "x"),
            "max_attempts": (0, 1.5, True),
            "retry_on": (("no",), (int,), 5),
            "retry_backoff": ("linear", 3),
            "retry_base": (0, float("inf")),
            "retry_max": (None,),
            "retry_jitter": (1,),
            "codec": ("yaml",),
        }
        for name, values in wrong.items():
            for value in values:
                with self.subTest(name=name, value=value), self.assertRaisesMessage(InvalidTask, name):
                    Task(func=tasks.add.func, **{name: value})

    def test_djangos_own_messages(self):
        for changes, message in (
            ({"priority": 101}, "priority must be a whole number between -100 and 100."),
            ({"priority": 1.5}, "priority must be a whole number between -100 and 100."),
            ({"queue_name": "other"}, "Queue 'other' is not valid for backend."),
            ({"run_after": datetime.datetime(2030, 1, 1)}, "run_after must be an aware datetime."),
        ):
            for task in (tasks.add, tasks.plain):
                with self.subTest(changes=changes, task=task.name), self.assertRaisesMessage(InvalidTask, message):
                    task.using(**changes)

    def test_a_run_after_that_is_no_moment(self):
        for task in (tasks.add, tasks.plain):
            with self.subTest(task=task.name), self.assertRaisesMessage(InvalidTask, "run_after: 60 is neither"):
                task.using(run_after=60)

    def test_what_cannot_be_kept_with_one_job(self):
        with self.assertRaisesMessage(TypeError, "belongs to the task"):
            tasks.add.using(timeout=3)
        with self.assertRaisesMessage(TypeError, "unexpected keyword"):
            tasks.add.using(color="red")

    @tasks_setting(queues=[])
    def test_no_list_of_queues_admits_any(self):
        self.assertEqual(tasks.add.using(queue_name="anything").enqueue(1).task.queue_name, "anything")

    @tasks_setting(queues=["default", "mail"])
    def test_an_override_of_settings_is_seen(self):
        task = tasks.add.using(queue_name="mail")
        task.enqueue(1)
        with tasks_setting(queues=["default"]), self.assertRaises(InvalidTask):
            task.enqueue(1)

    @tasks_setting(tasks={"tests.taskbackend.shop.tasks.add": {"max_attempts": 9}})
    def test_the_tasks_setting_wins_over_the_decorator_and_using_over_it(self):
        result = tasks.add.enqueue(1)
        self.assertEqual(Job.objects.get(pk=result.id).max_attempts, 9)
        self.assertEqual(tasks.add.get_result(result.id), result)
        nearer = tasks.add.using(max_attempts=2).enqueue(1)
        self.assertEqual(Job.objects.get(pk=nearer.id).max_attempts, 2)
        self.assertEqual(tasks.add.get_result(nearer.id), nearer)


@pytest.mark.parametrize("name", ["concurrency", "rate", "isolated", "follows"])
def test_options_of_later_releases_are_refused_by_name(name):
    from tinyjobs import task

    with pytest.raises(Exception, match=name):
        task(**{name: 1})
