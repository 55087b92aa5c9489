"""`manage.py tinyjobs` as a process, in a project of its own: not yet migrated, badly configured, stopped."""

import contextlib
import fcntl
import json
import os
import signal
import sqlite3
import sys
import threading

import pytest

from tests.cli.processes import PATIENCE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and named pipes")

WAITS = "This process waits until that is so"
#: So many tracebacks are more than a pipe of a page and what a worker keeps for its reader.
MANY = 150
FAILING = """
from tinyjobs import task

@task
def fail(number):
    raise ValueError("x" * 2000)
"""


def test_a_worker_waits_for_migrate_and_then_works(project):
    worker = project.start("tinyjobs", "worker", "--until-empty")
    worker.wait_for(f"Run `manage.py migrate`.*{WAITS}")
    project.migrate()
    worker.wait_for("The tables are there now")
    assert worker.ends() == 0
    assert worker.output.count(WAITS) == 1
    assert worker.output.splitlines()[-1] == "Done: 0 jobs ran, 0 failed, 0 wait for later."


def test_a_stop_ends_the_waiting(project):
    worker = project.start("tinyjobs", "worker")
    worker.wait_for(WAITS)
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0


def test_other_commands_do_not_wait(project):
    status, output = project.run("tinyjobs", "queues")
    assert status == 1
    assert "Run `manage.py migrate`" in output


def test_a_newer_store_is_refused_in_plain_words(project):
    project.migrate()
    with sqlite3.connect(project.folder / "db.sqlite3") as connection:
        connection.execute("UPDATE tinyjobs_meta SET value = '99' WHERE key IN ('schema_version', 'compatible_since')")
    connection.close()
    status, output = project.run("tinyjobs", "worker")
    assert status == 2
    assert "was laid out by a newer tinyjobs" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sys\nsys.exit(2)\n", r"broken.tasks could not be imported.*it called exit\(2\)"),
        ("import nowhere\n", "broken.tasks could not be imported.*No module named 'nowhere'"),
        (
            "from django.contrib.auth.models import User\n",
            "broken.tasks could not be imported.*doesn't declare an explicit app_label",
        ),
    ],
    ids=["exits", "imports what is not there", "uses what is not installed"],
)
def test_a_tasks_module_that_fails_is_named_and_the_others_go_on(project, text, reason):
    project.write("broken/tasks.py", text)
    project.lay_out()
    project.send("tasks.note.enqueue('one')")
    worker = project.start("tinyjobs", "worker", "--until-empty")
    worker.wait_for(reason)
    worker.wait_for("tasks:.*3 found")
    assert worker.ends() == 0
    assert (project.folder / "ran.txt").read_text() == "one\n"


def test_a_query_at_import_breaks_neither_migrate_nor_the_worker(project):
    project.write("broken/models.py", "from django.db import models\nclass Thing(models.Model):\n    pass\n")
    project.write("broken/tasks.py", "from broken.models import Thing\nTHINGS = list(Thing.objects.all())\n")
    project.migrate()
    status, output = project.run("tinyjobs", "worker", "--until-empty")
    assert status == 0
    assert "broken.tasks could not be imported" in output
    assert "no such table: broken_thing" in output


def test_the_banner_tells_what_runs(project):
    project.lay_out()
    _, output = project.run("tinyjobs", "worker", "--until-empty", "--queues", "mail, default", "-v", "2")
    for expected in (
        "TASKS['default']",
        f"DATABASES['default'], SQLite {project.folder}/db.sqlite3",
        "mail, default",
        "3 found",
        "shop.tasks.note",
        "8 functions in threads and 128 coroutines",
        "Django ",
    ):
        assert expected in output
    assert "No task and no job uses" not in output
    assert "transaction_mode" not in output


def test_queues_nobody_uses_are_warned_of(project):
    project.lay_out()
    project.send("tasks.note.using(queue_name='sent').enqueue('x')")
    _, output = project.run("tinyjobs", "worker", "--until-empty", "--queues", "sent", "--queues", "mial,mail")
    assert "No task and no job uses the queue 'mial'. Queues that tasks name: default, mail." in output
    assert "'sent'" not in output
    assert "'mail'" not in output


def test_a_database_in_deferred_mode_is_warned_of(project):
    project.configure(options={})
    project.lay_out()
    _, output = project.run("tinyjobs", "worker", "--until-empty", "--skip-checks")
    assert output.count('SQLite without "transaction_mode"') == 1


def test_the_settings_give_defaults_and_the_command_line_wins(project):
    options = {"queues": ["mail"], "concurrency": 3, "async_concurrency": 5}
    project.configure(tasks={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}})
    project.write("shop/tasks.py", "from tinyjobs import task\n@task\ndef note(): pass\n")
    project.lay_out()
    _, output = project.run("tinyjobs", "worker", "--until-empty", "--concurrency", "2")
    assert "queues:   mail" in output
    assert "2 functions in threads and 5 coroutines" in output


def test_a_wrong_path_in_the_tasks_setting_is_a_configuration_error(project):
    options = {"tasks": {"shop.tasks.nothing": {"timeout": 3}}}
    project.configure(tasks={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": [], "OPTIONS": options}})
    status, output = project.run("tinyjobs", "worker", "--until-empty")
    assert status == 2
    assert "TASKS['default']['OPTIONS']['tasks']['shop.tasks.nothing'] names no task" in output


def test_a_url_store_needs_no_migrate(project):
    options = {"url": f"sqlite:///{project.folder}/own.db?prefix=own"}
    project.configure(tasks={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": [], "OPTIONS": options}})
    project.send("tasks.note.enqueue('one')")
    status, output = project.run("tinyjobs", "worker", "--until-empty")
    assert status == 0
    assert "Done: 1 job ran, 0 failed" in output
    assert json.loads(project.run("tinyjobs", "-v", "0", "jobs", "list", "--json")[1])["jobs"][0]["status"] == "success"


def test_sigterm_lets_the_job_end(project, gate):
    project.lay_out()
    project.send(f"tasks.hold.enqueue({str(gate.path)!r})")
    worker = project.start("tinyjobs", "worker")
    worker.wait_for("began")
    worker.signal(signal.SIGTERM)
    worker.wait_for("what still runs has ended: 1 job")
    gate.open()
    assert worker.ends() == 0
    assert worker.output.splitlines()[-1].startswith("Stopped: 1 job ran, 0 failed")


def test_closed_streams_hurt_no_job(project):
    project.lay_out()
    project.send("tasks.note.enqueue('one')")
    command = f"exec {sys.executable} manage.py tinyjobs worker --until-empty >&- 2>&-"
    worker = project._start(["/bin/sh", "-c", command], project.folder)
    assert worker.ends() == 0
    assert (project.folder / "ran.txt").read_text() == "one\n"


def test_a_listing_whose_reader_leaves_ends_quietly(project):
    project.lay_out()
    project.send("tasks.note.enqueue_many([('x',)] * 3)")
    command = f"{sys.executable} manage.py tinyjobs jobs list --limit 1 | true"
    listing = project._start(["/bin/sh", "-c", command], project.folder)
    assert listing.ends() == 0
    assert listing.output == ""


def test_a_wrong_command_line_ends_with_2_and_says_why(project):
    status, output = project.run("tinyjobs", "worker", "--concurrency", "0")
    assert status == 2
    assert "--concurrency: 0 is not a whole number from 1 to 1000" in output
    status, output = project.run("tinyjobs", "worker", "--backend", "nope")
    assert status == 2
    assert "TASKS has no 'nope'. There are: default." in output


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a pipe whose size can be set")
def test_output_that_nobody_reads_holds_up_no_job(project):
    project.lay_out()
    project.write("shop/tasks.py", FAILING)
    project.send(f"tasks.fail.enqueue_many([(number,) for number in range({MANY})])")
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    try:
        worker = project.start("tinyjobs", "worker", "-v", "2", stdout=theirs, stderr=theirs)
        os.close(theirs)
        with contextlib.closing(sqlite3.connect(project.folder / "db.sqlite3", timeout=PATIENCE)) as connection:
            pause = threading.Event()
            for _ in range(int(PATIENCE * 10)):
                (failed,) = connection.execute("SELECT count(*) FROM tinyjobs_jobs WHERE status = 'failed'").fetchone()
                if failed == MANY or worker.process.poll() is not None:
                    break
                pause.wait(0.1)
        assert failed == MANY
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(PATIENCE) == 0
    finally:
        os.close(ours)
