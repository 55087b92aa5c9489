"""Whole projects as their developers run them: test runners, flushes, replicas, a worker beside requests."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.tasks import default_task_backend
from django.test import TransactionTestCase, override_settings

from tests.taskbackend.shop import tasks
from tests.taskbackend.shop.models import Order
from tinyjobs.core.inline import finish
from tinyjobs.models import Job
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.taskbackend.working import open_worker
from tinyjobs.testing import drain

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60

SETTINGS = """
    import json, os
    SECRET_KEY = "for a test"
    USE_TZ = {use_tz}
    TIME_ZONE = "Asia/Tokyo"
    INSTALLED_APPS = ["tinyjobs", "club"]
    DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
    DATABASES = {{"default": json.loads(os.environ["CLUB_DATABASE"])}}
    TASKS = {{"default": {{"BACKEND": "tinyjobs.TinyJobsBackend"}}}}
    MIGRATION_MODULES = {migration_modules}
"""
TASKS = """
    from tinyjobs import task

    @task
    def double(number):
        return number * 2
"""
TESTS = """
    import datetime
    from django.test import TestCase, TransactionTestCase
    from django.utils import timezone
    from club.tasks import double
    from tinyjobs.testing import drain

    class Checks:
        def test_a_job(self):
            result = double.enqueue(21)
            self.assertEqual(drain(), 1)
            result.refresh()
            self.assertEqual(result.return_value, 42)
            self.assertLess(abs(timezone.now() - result.finished_at), datetime.timedelta(minutes=1))

        def test_another(self):
            later = double.using(run_after=timezone.now() + datetime.timedelta(minutes=1)).enqueue(1)
            self.assertEqual(drain(), 0)
            self.assertEqual(double.get_result(later.id), later)

    class InATransaction(Checks, TestCase):
        pass

    class Flushed(Checks, TransactionTestCase):
        pass
"""


class ClubProject:
    """A project on the store that the suite runs on."""

    def __init__(self, folder, entry):
        self.folder = folder
        self.entry = entry

    def lay_out(self, *, use_tz=True, migration_modules=None):
        club = self.folder / "club"
        club.mkdir()
        settings = SETTINGS.format(use_tz=use_tz, migration_modules=migration_modules or {})
        for path, text in (
            (self.folder / "settings.py", settings),
            (club / "__init__.py", ""),
            (club / "tasks.py", TASKS),
            (club / "tests.py", TESTS),
        ):
            path.write_text(textwrap.dedent(text))

    def run_tests(self, *arguments):
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT}",
            "CLUB_DATABASE": json.dumps(self.entry),
        }
        command = [sys.executable, "-m", "django", "test", "--noinput", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Ran 4 tests" in done.stderr


@pytest.fixture
def project(tmp_path, request):
    entry = dict(connections[DEFAULT_DB_ALIAS].settings_dict)
    entry = {name: entry[name] for name in ("ENGINE", "HOST", "PORT", "USER", "PASSWORD")}
    if connections[DEFAULT_DB_ALIAS].vendor == "sqlite":
        options = {"transaction_mode": "IMMEDIATE"}
        yield ClubProject(tmp_path, {**entry, "NAME": str(tmp_path / "db.sqlite3"), "OPTIONS": options})
        return
    server = request.getfixturevalue("postgres_cluster")
    name = server.create_database()
    yield ClubProject(tmp_path, {**entry, "NAME": name})
    for made in ("", *(f"_{number}" for number in (1, 2))):
        server.drop_database(f"test_{name}{made}")
    server.drop_database(name)


@pytest.mark.database
@pytest.mark.slow
class TestARunner:
    def test_in_parallel(self, project):
        project.lay_out()
        project.run_tests("--parallel", "2")

    def test_with_a_database_that_is_kept(self, project):
        if "sqlite" in project.entry["ENGINE"]:
            project.entry["TEST"] = {"NAME": str(project.folder / "kept.sqlite3")}
        project.lay_out()
        project.run_tests("--keepdb")
        project.run_tests("--keepdb")

    def test_without_time_zones(self, project):
        project.lay_out(use_tz=False)
        project.run_tests()

    def test_without_migrations(self, project):
        project.lay_out(migration_modules={"tinyjobs": None})
        project.run_tests()


class FlushTests(TransactionTestCase):
    def test_a_flush_takes_the_jobs_and_leaves_the_store_working(self):
        tasks.add.enqueue(1)
        call_command("flush", interactive=False, verbosity=0)

        self.assertEqual(Job.objects.count(), 0)
        with connection.cursor() as cursor:
            cursor.execute("SELECT key FROM tinyjobs_meta", ())
            self.assertLessEqual({"layout", "schema_version", "instance"}, {key for (key,) in cursor.fetchall()})
        result = tasks.add.enqueue(1, 2)
        drain()
        result.refresh()
        self.assertEqual(result.return_value, 3)


class Lagging:
    """A router that reads from a replica which has nothing yet."""

    def db_for_read(self, model, **hints):
        return "other"


@override_settings(DATABASE_ROUTERS=[Lagging()])
class LaggingReplicaTests(TransactionTestCase):
    databases = {"default", "other"}

    def test_results_are_read_where_jobs_are_written(self):
        result = tasks.add.enqueue(1, 2)
        drain()

        self.assertEqual(default_task_backend.get_result(result.id).return_value, 3)
        self.assertTrue(tasks.add.using(key="k").enqueue(1).id)
        self.assertTrue(tasks.add.using(key="k").enqueue(1).existing)


class BesideAWorkerTests(TransactionTestCase):
    """A worker that polls without pause never runs a job whose row is not there."""

    def test_jobs_start_after_their_rows_can_be_seen(self):
        started, workers = threading.Event(), []

        def serve():
            with open_worker(settings=WorkerSettings(concurrency=2, poll=0.001, handle_signals=False)) as worker:
                workers.append(worker)
                started.set()
                asyncio.run(worker.run())
            connections.close_all()

        thread = threading.Thread(target=serve)
        thread.start()
        started.wait(PATIENCE)
        results = []
        try:
            for number in range(150):
                with transaction.atomic():
                    result = tasks.name_of_order.enqueue(str(number))
                    Order.objects.create(name=str(number))
                    transaction.on_commit(lambda kept=result: results.append(kept))
                    if number % 3 == 0:
                        transaction.set_rollback(True)
            left = WaitFor(lambda: not {"queued", "running"} & self.counted().keys())
            self.assertTrue(left.came)
        finally:
            workers[0].stop()
            thread.join(PATIENCE)

        self.assertEqual(len(results), 100)
        self.assertEqual(self.counted(), {"success": 100})
        for result in results:
            result.refresh()
        self.assertEqual({result.status for result in results}, {"SUCCESSFUL"})

    def counted(self):
        counts = finish(default_task_backend.shared.store.counts_by_status())
        return {status: count for status, count in counts.items() if count}


class WaitFor:
    """Ask again and again until the answer is yes, or patience ends."""

    def __init__(self, question):
        self.came = False
        pause = threading.Event()
        for _ in range(PATIENCE * 50):
            if question():
                self.came = True
                return
            pause.wait(0.02)
