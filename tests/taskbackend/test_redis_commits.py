"""A commit and the jobs that it sends to Redis: how often the server is asked, and what is lost when things break."""

import signal
from unittest import mock

import pytest
from django.db import connection, transaction
from django.test import TransactionTestCase, override_settings

from tests.taskbackend.projects import Project
from tests.taskbackend.shop import tasks
from tests.taskbackend.shop.models import Order
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.errors import StoreUnavailableError

pytestmark = pytest.mark.redis


class CommitTests(TransactionTestCase):
    @pytest.fixture(autouse=True)
    def _server(self, own_redis):
        self.server = own_redis
        options = {"url": own_redis.url(), "socket_connect_timeout": 1}
        with override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}):
            # From here on the scripts are known to the server, and the connection is open.
            tasks.add.enqueue(0)
            tasks.add.enqueue_many([(0,), (0,)])
            tasks.add.using(key="warm").enqueue(0)
            with transaction.atomic():
                tasks.add.using(key="warm").enqueue(0)
            own_redis.execute("CONFIG RESETSTAT")
            yield

    def asked(self):
        """How often the server was asked for anything since the start, or since this was last called."""
        stats = self.server.execute("INFO", "commandstats")
        self.server.execute("CONFIG RESETSTAT")
        return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))

    def stored(self):
        with TinyJobs(self.server.url()) as app:
            return {job.id for job in app.list(limit=1_000).jobs}

    def test_outside_of_a_transaction_each_send_is_one_round_trip(self):
        tasks.add.enqueue(1)
        self.assertEqual(self.asked(), 1)
        tasks.add.enqueue_many([(number,) for number in range(500)])
        self.assertEqual(self.asked(), 1)
        tasks.add.using(key="new").enqueue(1)
        self.assertEqual(self.asked(), 1)

    def test_a_commit_is_one_round_trip_however_many_jobs_it_sends(self):
        with transaction.atomic():
            results = [tasks.add.enqueue(number) for number in range(5)]
            with transaction.atomic():
                results += tasks.add.enqueue_many([(number,) for number in range(200)])
            self.assertEqual(self.asked(), 0)

        self.assertEqual(self.asked(), 1)
        self.assertLessEqual({result.id for result in results}, self.stored())

    def test_a_key_is_looked_up_at_once_and_again_at_the_commit(self):
        with transaction.atomic():
            tasks.add.using(key="one").enqueue(1)
            self.assertEqual(self.asked(), 1)

        self.assertEqual(self.asked(), 1)

    def test_a_server_that_is_down_at_the_commit(self):
        """The row stays, the jobs are lost, and whoever committed is told."""
        later = mock.Mock()
        with (
            self.assertLogs("tinyjobs.tasks", "ERROR") as logged,
            self.assertRaises(StoreUnavailableError) as raised,
            transaction.atomic(),
        ):
            Order.objects.create(name="committed")
            results = [tasks.add.enqueue(1), tasks.add.enqueue(2)]
            transaction.on_commit(later)
            self.server.stop()

        self.assertTrue(Order.objects.filter(name="committed").exists())
        self.assertFalse(connection.in_atomic_block)
        self.assertEqual(logged.records[0].job_ids, [result.id for result in results])
        self.assertIn("committed all the same", raised.exception.__notes__[0])
        later.assert_not_called()
        self.server.start()
        self.assertFalse({result.id for result in results} & self.stored())
        self.assertEqual(tasks.add.enqueue(3).status, "READY")

    def test_a_server_that_is_down_before_the_first_send_of_a_key_fails_inside_the_transaction(self):
        self.server.stop()
        with self.assertRaises(StoreUnavailableError), transaction.atomic():
            Order.objects.create(name="rolled back")
            tasks.add.using(key="one").enqueue(1)

        self.assertFalse(Order.objects.filter(name="rolled back").exists())


KILLED = """
import os, signal, django
django.setup()
from django.db import transaction
from django.contrib.contenttypes.models import ContentType
from club.tasks import count

with transaction.atomic():
    ContentType.objects.create(app_label="killed", model="row")
    transaction.on_commit(lambda: os.kill(os.getpid(), signal.SIGKILL))
    print(count.enqueue().id, flush=True)
"""


def test_a_process_killed_between_the_commit_and_the_send_loses_its_jobs(tmp_path, redis_url):
    """The documented limit of a store outside of the database: the row is there, its job never was."""
    apps = "\nINSTALLED_APPS.append('django.contrib.contenttypes')\n"
    project = Project(tmp_path, f"sqlite:///{tmp_path}/club.sqlite3", jobs=redis_url, settings=apps)
    try:
        job_id = project.run_python("-c", KILLED, status=-signal.SIGKILL).strip()
        counted = "import django; django.setup(); from django.contrib.contenttypes.models import ContentType as C"
        asked = f"{counted}; print(C.objects.filter(app_label='killed').count())"
        assert project.run_python("-c", asked).strip() == "1"
        assert len(job_id) == 36
        assert project.app.get(job_id) is None
        assert project.app.list().jobs == []
    finally:
        project.close()
