"""Workers hear of jobs that a Django project sends to its Postgres, and the project notices nothing of it."""

import asyncio
import threading
import time

import psycopg
import pytest
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings

from tests.taskbackend.shop import tasks
from tinyjobs.backends.postgres.notifying import WINDOW, topic_of
from tinyjobs.core.clock import SystemClock
from tinyjobs.models import Job
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.vendors import find_vendor

pytestmark = pytest.mark.postgres

PATIENCE = 60.0
DEFAULT = topic_of("default")


@override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": []}})
class ToldTests(TransactionTestCase):
    """With a session of its own that hears whatever is notified in the database."""

    def setUp(self):
        params = connection.get_connection_params()
        params = {name: params[name] for name in ("dbname", "user", "password", "host", "port") if name in params}
        self.raw = psycopg.connect(**params, autocommit=True)
        self.addCleanup(self.raw.close)
        channel = find_vendor("postgresql").statements["channel"].format
        ((self.channel,),) = self.raw.execute(channel).fetchall()
        self.raw.execute(f'LISTEN "{self.channel}"')
        time.sleep(WINDOW)  # what an earlier test told does not count as told lately

    def told(self, seconds=0.3):
        return sorted(note.payload for note in self.raw.notifies(timeout=seconds))

    def test_outside_of_a_transaction(self):
        seen = []

        def wrapper(execute, sql, params, many, context):
            seen.append(sql)
            return execute(sql, params, many, context)

        with self.assertNumQueries(1), connection.execute_wrapper(wrapper):
            tasks.add.enqueue(1)

        self.assertEqual(len(seen), 1)
        self.assertEqual(self.told(), [DEFAULT])

    def test_at_the_commit_once_for_each_queue(self):
        with transaction.atomic():
            for _ in range(3):
                tasks.add.enqueue(1)
                tasks.add.using(queue_name="slow").enqueue(1)
            self.assertEqual(self.told(), [])

        self.assertEqual(self.told(), sorted([DEFAULT, topic_of("slow")]))

    def test_not_after_a_rollback(self):
        with transaction.atomic():
            tasks.add.enqueue(1)
            transaction.set_rollback(True)

        self.assertEqual(self.told(), [])

    def test_a_burst_is_told_once_in_fifty_milliseconds(self):
        began = time.monotonic()
        for number in range(100):
            tasks.add.enqueue(number)
        took = time.monotonic() - began

        told = self.told()
        self.assertEqual(set(told), {DEFAULT})
        self.assertLessEqual(len(told), took / WINDOW + 1)

    def test_not_with_autocommit_off(self):
        transaction.set_autocommit(False)
        try:
            tasks.add.enqueue(1)
            transaction.commit()
            self.assertEqual(self.told(), [])
        finally:
            transaction.set_autocommit(True)

    def test_a_store_without_its_meta_row_tells_nobody_and_keeps_the_job(self):
        with self.raw.transaction():
            self.raw.execute("ALTER TABLE tinyjobs_meta RENAME TO away")
        try:
            with transaction.atomic():
                tasks.add.enqueue(1)
        finally:
            self.raw.execute("ALTER TABLE away RENAME TO tinyjobs_meta")

        self.assertEqual(self.told(), [])
        self.assertEqual(Job.objects.count(), 1)

    def test_not_where_it_is_switched_off(self):
        given = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"notify": False}}}
        with override_settings(TASKS=given):
            tasks.add.enqueue(1)

        self.assertEqual(self.told(), [])

    def test_the_workers_store_hears_it(self):
        """The worker's own connections and the project's mean the same store, and so the same channel."""
        store = find_vendor("postgresql").open("default", SystemClock(), {})
        hears, woken = threading.Event(), []

        async def hear():
            await store.setup()
            while not store.can_wake():
                await store.wait_for_jobs(0.02)
            while await store.wait_for_jobs(0.1):
                pass
            hears.set()
            try:
                woken.append(await store.wait_for_jobs(PATIENCE, ["default"]))
            finally:
                await store.close()

        thread = threading.Thread(target=lambda: asyncio.run(asyncio.wait_for(hear(), 2 * PATIENCE)))
        thread.start()
        self.assertTrue(hears.wait(PATIENCE))
        with transaction.atomic():
            tasks.add.enqueue(1)
        thread.join(2 * PATIENCE)

        self.assertEqual(woken, [True])


class InsideATestCaseTests(TestCase):
    def test_nothing_is_added_that_a_test_can_count(self):
        self.assertIsNotNone(backend_of("default").shared.store.notifier)
        with self.captureOnCommitCallbacks(execute=True) as callbacks, self.assertNumQueries(1):
            tasks.add.enqueue(1)

        self.assertEqual(callbacks, [])
