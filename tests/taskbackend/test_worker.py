"""A worker over a Django project: connections of its own, and nothing left from one job to the next."""

import asyncio
import gc
import sqlite3
import threading
import time
import warnings
from contextlib import suppress
from unittest import mock

import pytest
from django.db import connection, connections, transaction
from django.tasks import TaskResultStatus, default_task_backend
from django.tasks.signals import task_finished, task_started
from django.test import TransactionTestCase, override_settings

from tests.taskbackend.shop import tasks
from tests.taskbackend.shop.models import Order
from tinyjobs.core.errors import ConfigurationError, SchemaMissingError, WorkerLost
from tinyjobs.core.ids import IdSource
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.core.job import Job as JobRecord
from tinyjobs.runtime.driving import drive
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.hygiene import KEPT, Hygiene
from tinyjobs.taskbackend.working import open_store, open_worker

PATIENCE = 20


def work(**changes):
    """Run a worker until nothing is due."""
    settings = {"concurrency": 1, "async_concurrency": 4, "until_empty": True, "handle_signals": False, "poll": 0.01}
    with open_worker(settings=WorkerSettings(**{**settings, **changes})) as worker:
        return drive(worker)


class WorkerTests(TransactionTestCase):
    def setUp(self):
        tasks.ran.clear()

    def test_it_runs_plain_functions_and_coroutines(self):
        results = [
            tasks.add.enqueue(1, 2),
            tasks.aadd.enqueue(3, 4),
            tasks.tell_context.enqueue(),
            tasks.plain.enqueue(5),
        ]
        report = work()

        for result in results:
            result.refresh()
        self.assertEqual((report.succeeded, report.failed), (4, 0))
        self.assertEqual([result.return_value for result in results[:2]], [3, 7])
        self.assertEqual(results[2].return_value[2], 1)
        self.assertEqual(results[3].return_value, [[5], {}])

    def test_a_job_and_its_rows_commit_by_themselves(self):
        with transaction.atomic():
            Order.objects.create(name="by the request")
            counted = tasks.count_orders.enqueue()
        placed = tasks.place_order.enqueue("by the job")
        work()

        counted.refresh()
        placed.refresh()
        self.assertEqual(counted.return_value, 1)
        self.assertEqual(Order.objects.get(pk=placed.return_value).name, "by the job")

    def test_a_failure(self):
        result = tasks.fail.enqueue("no")
        with self.assertLogs("django.tasks", "ERROR") as logged:
            self.assertEqual(work().failed, 1)
        result.refresh()

        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIn("ValueError: no", logged.output[0])

    def test_what_one_job_leaves_behind_does_not_reach_the_next(self):
        for spoiling in (
            tasks.autocommit_off,
            tasks.enter_atomic_and_raise,
            tasks.swallow_inside_atomic,
            tasks.close_raw_connection,
            tasks.begin_by_hand,
            tasks.spoil_translation,
        ):
            with self.subTest(spoiling=spoiling.name):
                spoiling.enqueue()
                after = [tasks.place_order.enqueue("next"), tasks.language.enqueue(), tasks.count_left_behind.enqueue()]
                work()
                for result in after:
                    result.refresh()
                self.assertEqual([result.status for result in after], ["SUCCESSFUL"] * 3)
                self.assertEqual(after[1].return_value, ["en-us", "UTC"])
                self.assertEqual(after[2].return_value, 0)

    def test_signals_come_from_the_thread_of_the_job_and_after_the_record(self):
        heard = []

        def started(sender, task_result, **kwargs):
            heard.append((threading.current_thread().name, task_result.status))

        def finished(sender, task_result, **kwargs):
            heard.append((task_result, tasks.thread_name.get_result(task_result.id)))

        for signal, receiver in ((task_started, started), (task_finished, finished)):
            signal.connect(receiver)
            self.addCleanup(signal.disconnect, receiver)
        result = tasks.thread_name.enqueue()
        work()
        result.refresh()

        self.assertEqual(heard[0], (result.return_value, "RUNNING"))
        self.assertEqual(heard[1], (result, result))
        self.assertEqual(len(heard), 2)

    def test_a_job_failed_by_the_reaper_is_told_of_once(self):
        heard = []

        def finished(sender, task_result, **kwargs):
            heard.append(task_result)

        task_finished.connect(finished)
        self.addCleanup(task_finished.disconnect, finished)
        result = tasks.add.enqueue(1)
        request = ClaimRequest(worker_id="gone", limit=1, lease=0.01)
        finish(default_task_backend.shared.store.claim(request))
        with self.assertLogs("django.tasks", "ERROR"):
            self.reap()
        result.refresh()

        self.assertEqual(heard, [result])
        self.assertEqual((result.status, result.worker_ids), ("FAILED", ["gone"]))
        self.assertIs(result.errors[-1].exception_class, WorkerLost)

    def reap(self):
        async def run(worker):
            def told(sender, **kwargs):
                worker.stop()

            task_finished.connect(told)
            try:
                await asyncio.wait_for(worker.run(), PATIENCE)
            finally:
                task_finished.disconnect(told)

        with open_worker(settings=WorkerSettings(reap_interval=0.1, poll=0.01, handle_signals=False)) as worker:
            asyncio.run(run(worker))

    def test_coroutines_do_not_queue_behind_each_others_queries(self):
        tasks.meeting = threading.Barrier(3)
        results = [tasks.ameet.enqueue() for _ in range(3)]
        work(async_concurrency=3)

        for result in results:
            result.refresh()
        self.assertEqual([result.status for result in results], ["SUCCESSFUL"] * 3)
        self.assertEqual(len({result.return_value for result in results}), 3)

    def test_a_lane_keeps_its_thread_and_connection(self):
        results = [tasks.alane.enqueue() for _ in range(4)]
        work(async_concurrency=1)

        for result in results:
            result.refresh()
        self.assertEqual(len({tuple(result.return_value) for result in results}), 1)

    def test_connections_are_closed_when_the_worker_ends(self):
        connection.ensure_connection()
        open_before = open_connections()
        for task in (tasks.count_orders, tasks.acount_orders):
            task.enqueue_many([()] * 8)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            work(concurrency=4)
            gc.collect()

        self.assertEqual(open_connections() - open_before, set())

    def test_a_task_that_this_worker_does_not_know_goes_back(self):
        store = default_task_backend.shared.store
        job_id = IdSource().make(time.time())
        sent = JobRecord(id=job_id, task="tests.taskbackend.shop.tasks.of_tomorrow", payload=b"[[],{}]")
        finish(store.enqueue(sent))
        with self.assertLogs("tinyjobs.worker", "ERROR"):
            report = work()

        job = finish(store.get(job_id))
        self.assertEqual((job.status, job.attempts, job.hand_backs, report.left_delayed), ("queued", 0, 1, 1))


def open_connections():
    """The driver's connections in this process that nobody closed."""
    found = set()
    for thing in gc.get_objects():
        if isinstance(thing, sqlite3.Connection):
            with suppress(sqlite3.ProgrammingError):
                thing.total_changes  # noqa: B018 - raises on a closed one
                found.add(id(thing))
    return found


class HygieneTests(TransactionTestCase):
    """The rules for one thread's connections, held still."""

    def in_thread(self, *steps):
        """Run the steps in a thread of their own, each as a job; what they answered."""
        answers, errors = [], []
        hygiene = Hygiene()

        def run():
            try:
                for step in steps:
                    with hygiene(JobRecord(id="j", task="t")):
                        answers.append(step())
            except BaseException as error:
                errors.append(error)
            finally:
                connections.close_all()

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(PATIENCE)
        if errors:
            raise errors[0]
        return answers

    def raw(self):
        connection.ensure_connection()
        return connection.connection

    def test_a_connection_is_kept_from_job_to_job(self):
        first, second = self.in_thread(self.raw, self.raw)

        self.assertIs(first, second)

    def test_it_is_kept_for_a_minute_and_not_for_ever(self):
        def closes_at():
            connection.ensure_connection()
            return connection.close_at

        def age():
            closes = connection.close_at
            connection.close_at = 0.0
            return closes

        def raw_after():
            return connection.connection

        opened, kept, after = self.in_thread(closes_at, age, raw_after)

        self.assertAlmostEqual(kept - opened, KEPT)
        self.assertIsNone(after)

    def test_what_django_keeps_longer_is_left_to_django(self):
        def closes_at():
            connection.ensure_connection()
            return connection.close_at

        # Connections of every thread read one and the same dictionary.
        with mock.patch.dict(connection.settings_dict, CONN_MAX_AGE=3_600):
            opened, kept = self.in_thread(closes_at, lambda: connection.close_at)

        self.assertEqual(opened, kept)

    def test_it_is_health_checked_before_it_is_used_again(self):
        asked = []

        def use():
            connection.is_usable = lambda: asked.append(True) or True
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            return len(asked)

        self.assertEqual(self.in_thread(use, use, use), [0, 1, 2])

    @override_settings(DEBUG=True)
    def test_the_query_log_is_emptied(self):
        def ask():
            for _ in range(20):
                Order.objects.count()
            return len(connection.queries_log)

        self.assertEqual(self.in_thread(*[ask] * 5), [20] * 5)

    def test_unopened_connections_are_not_opened(self):
        made = self.in_thread(lambda: None, lambda: list(connections.all(initialized_only=True)))

        self.assertEqual(made, [None, []])


class EngineTests(TransactionTestCase):
    databases = {"default", "other"}

    def test_an_alias_that_is_not_ours(self):
        entry = {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}
        with override_settings(TASKS={"default": entry}), self.assertRaisesMessage(ConfigurationError, "DummyBackend"):
            backend_of("default")

    def test_a_database_that_is_migrated(self):
        asyncio.run(set_up(open_store(backend_of("default").shared)))

    def test_the_other_database(self):
        options = {"database": "other"}
        with override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}):
            result = tasks.add.enqueue(1, 2)
            work()
            result.refresh()
            self.assertEqual(result.return_value, 3)


def ours_in(alias):
    return override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"database": alias}}})


@pytest.mark.database
def test_a_database_that_is_not_migrated_yet(scratch):
    with ours_in("scratch"), pytest.raises(SchemaMissingError, match="migrate"):
        asyncio.run(set_up(open_store(backend_of("default").shared)))


@pytest.mark.sqlite
def test_a_database_in_memory_has_no_workers(scratch):
    scratch.settings_dict["NAME"] = "file:memorydb_default?mode=memory&cache=shared"
    with ours_in("scratch"), pytest.raises(ConfigurationError, match="drain"):
        open_store(backend_of("default").shared)


async def set_up(store):
    try:
        await store.setup()
    finally:
        await store.close()
