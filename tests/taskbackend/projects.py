"""A project in a folder, with a worker of it as its developers run it: `manage.py tinyjobs worker`, a real process."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import psycopg

from tinyjobs.app.facade import TinyJobs

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60

SETTINGS = """
    import json, os
    SECRET_KEY = "for a test"
    USE_TZ = True
    INSTALLED_APPS = ["tinyjobs", "club"]
    DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
    DATABASES = {"default": json.loads(os.environ["CLUB_DATABASE"])}
    TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": json.loads(os.environ["CLUB_OPTIONS"])}}
"""
TASKS = """
    import asyncio, os, threading, time
    from pathlib import Path
    from asgiref.sync import sync_to_async
    from django.db import connection
    from tinyjobs import task
    from tinyjobs.models import Job

    STARTED = Path(__file__).parent.parent / "started"

    def ask(question):
        with connection.cursor() as cursor:
            cursor.execute(question)
            return cursor.fetchone()[0]

    @task
    def backend():
        return ask("SELECT pg_backend_pid()")

    @task
    def count():
        return Job.objects.count()

    @task
    async def acount():
        return await Job.objects.acount()

    @task
    def end_own_connection():
        ask("SELECT pg_terminate_backend(pg_backend_pid())")

    @task
    async def abackend():
        await Job.objects.acount()
        return await sync_to_async(ask)("SELECT pg_backend_pid()")

    @task
    async def aend_own_connection():
        await sync_to_async(ask)("SELECT pg_terminate_backend(pg_backend_pid())")

    @task
    def spoil(statement):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
            cursor.execute(statement)
        return pid

    @task
    async def aspoil(statement):
        return await sync_to_async(spoil.func)(statement)

    @task
    def note(name):
        with STARTED.open("a") as file:
            print(name, os.getpid(), file=file, flush=True)
        time.sleep(0.02)
        return Job.objects.count()

    @task
    def linger(name):
        with STARTED.open("a") as file:
            print(name, os.getpid(), file=file, flush=True)
        Job.objects.count()
        if len([line for line in STARTED.read_text().splitlines() if line.startswith(name + " ")]) == 1:
            threading.Event().wait(60)
        return os.getpid()

    @task
    async def alinger(name):
        with STARTED.open("a") as file:
            print(name, os.getpid(), file=file, flush=True)
        await Job.objects.acount()
        if len([line for line in STARTED.read_text().splitlines() if line.startswith(name + " ")]) == 1:
            await asyncio.sleep(60)
        return os.getpid()
"""


def until(question, what):
    """Ask again and again until the answer is yes, or patience ends; the answer."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := question()):
        assert time.monotonic() < deadline, f"it did not come about: {what}"
        time.sleep(0.02)
    return answer


def entry_of(url):
    """The settings of the database of a URL, for `DATABASES`."""
    place = urlsplit(url)
    if place.scheme == "sqlite":
        name, options = unquote(place.path)[1:], {"transaction_mode": "IMMEDIATE", "timeout": 20}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": options}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": place.path[1:],
        "HOST": unquote(place.hostname or ""),
        "PORT": str(place.port or ""),
        "USER": unquote(place.username or ""),
        "PASSWORD": unquote(place.password or ""),
        "OPTIONS": dict(parse_qsl(place.query)),
    }


class Project:
    """A project on the database of a URL, its jobs in there or in a store of their own, `jobs`.

    Jobs are sent by another program, as it were.
    """

    def __init__(self, folder, url, *, jobs=None, database=None, options=None, settings=""):
        self.folder = folder
        self.url = url
        entry = entry_of(url)
        self.name = entry["NAME"]
        database = dict(database or {})
        entry["OPTIONS"].update(database.pop("OPTIONS", {}))
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
            "CLUB_DATABASE": json.dumps({**entry, **database}),
            "CLUB_OPTIONS": json.dumps({**({"url": jobs} if jobs else {}), **(options or {})}),
        }
        (folder / "club").mkdir()
        for path, text in (("settings.py", SETTINGS), ("club/__init__.py", ""), ("club/tasks.py", TASKS)):
            (folder / path).write_text(textwrap.dedent(text))
        with (folder / "settings.py").open("a") as file:
            file.write(settings)
        self.manage("migrate", "--verbosity", "0")
        self.app = TinyJobs(jobs or url)
        self._workers = []

    def manage(self, *arguments):
        return self.run_python("-m", "django", *arguments)

    def run_python(self, *arguments, status=0):
        """Run Python in the project, expected to end with that status; what it printed."""
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def start_worker(self, *flags):
        command = [sys.executable, "-m", "django", "tinyjobs", "worker", *flags]
        errors = (self.folder / f"worker-{len(self._workers)}.err").open("wb")
        with errors:
            worker = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=errors
            )
        self._workers.append(worker)
        return worker

    def stop(self, worker):
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0, self.errors()

    def errors(self):
        return "".join(file.read_text() for file in sorted(self.folder.glob("worker-*.err")))

    def send(self, task, *arguments, **options):
        return self.app.send(f"club.tasks.{task}", arguments, **options).id

    def run(self, task, *arguments):
        """Send a job and wait for its end; the job."""
        return self.ended(self.send(task, *arguments))

    def ended(self, job_id):
        until(lambda: self.app.get(job_id).finished_at is not None, f"the end of job {job_id}: {self.errors()}")
        return self.app.get(job_id)

    def sessions(self):
        """The server's processes for this database that are none of the store's or ours, by their id."""
        with psycopg.connect(self.url, application_name="asking", autocommit=True) as connection:
            return [
                pid
                for (pid,) in connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = ''"
                )
            ]

    def close(self):
        self.app.close()
        for worker in self._workers:
            worker.kill()
            worker.wait(PATIENCE)
