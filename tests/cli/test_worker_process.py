"""`tinyjobs worker` as a process: signals, kills, streams that break. No test measures how long something takes."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from tests.cli.processes import PATIENCE
from tinyjobs.app.facade import TinyJobs
from tinyjobs.cli.worker import _run
from tinyjobs.core.status import JobStatus

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and named pipes")


def test_until_empty_counts_what_ran_failed_and_waits(program, jobs):
    jobs.send("work.note", ["one"])
    jobs.send("work.fail", ["on purpose"], queue="mail")
    jobs.send("work.note", ["later"], delay=3600)
    status, output = program.run("worker", "--until-empty")
    assert status == 0
    assert output.splitlines()[-1] == "Done: 2 jobs ran, 1 failed, 1 waits for later."
    assert (program.folder / "ran.txt").read_text() == "one\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_job_end_and_takes_no_other(program, jobs, gate, number):
    running = jobs.send("work.hold", [str(gate.path)])
    worker = program.start("worker", "--concurrency", "1")
    worker.wait_for("began")
    waiting = jobs.send("work.note", ["not here"])
    worker.signal(number)
    worker.wait_for("what still runs")
    gate.open()
    assert worker.ends() == 0
    assert worker.output.splitlines()[-1] == "Stopped: 1 job ran, 0 failed."
    assert jobs.get(running).status is JobStatus.SUCCESS
    assert jobs.get(waiting).status is JobStatus.QUEUED


@pytest.mark.parametrize("flags", [[], ["--reload"]], ids=["alone", "reloading"])
def test_ctrl_c_in_a_terminal_counts_once(program, jobs, gate, flags):
    """It reaches every process in the foreground; the job runs to its end all the same."""
    running = jobs.send("work.hold", [str(gate.path)])
    worker = program.start("worker", *flags, terminal=True)
    worker.wait_for("began")
    worker.press_ctrl_c()
    worker.wait_for("what still runs")
    gate.open()
    assert worker.ends() == 0
    assert jobs.get(running).status is JobStatus.SUCCESS


@pytest.mark.parametrize("flags", [[], ["--reload"]], ids=["alone", "reloading"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_gives_the_job_back_and_ends_with_130(program, jobs, number, flags):
    running = jobs.send("work.wait_for_ever")
    worker = program.start("worker", "--shutdown-timeout", "3600", *flags)
    worker.wait_for("began")
    worker.signal(number)
    worker.wait_for("what still runs")
    worker.signal(number)
    assert worker.ends() == 130
    back = jobs.get(running)
    assert (back.status, back.attempts) == (JobStatus.QUEUED, 0)


def test_a_killed_workers_job_is_finished_by_another(program, jobs):
    lost = jobs.send("work.hold_once", ["marker"], max_attempts=2)
    first = program.start("worker", "--lease", "1")
    first.wait_for("began")
    first.signal(signal.SIGKILL)
    assert first.ends() == -signal.SIGKILL
    second = program.start("worker", "--lease", "1", "--reap-interval", "0.1", "--until-empty")
    second.wait_for("taken back: its worker vanished")
    assert second.ends() == 0
    done = jobs.get(lost)
    assert (done.status, done.attempts) == (JobStatus.SUCCESS, 2)


def test_a_signal_while_modules_are_imported_ends_cleanly(program, gate):
    program.write("slow.py", f"print('importing', flush=True)\nopen({str(gate.path)!r}).read()\n")
    worker = program.start("worker", "--import", "slow")
    worker.wait_for("importing")
    worker.signal(signal.SIGTERM)
    gate.open()
    assert worker.ends() == 0
    assert "Worker " not in worker.output


def test_jobs_are_told_line_by_line_at_verbosity_2_alone(program, jobs):
    job = jobs.send("work.note", ["one"])
    _, usual = program.run("worker", "--until-empty")
    assert job.id not in usual
    again = jobs.send("work.note", ["two"])
    _, more = program.run("worker", "--until-empty", "-v", "2")
    assert f"job {again.id} (work.note) succeeded" in more
    assert "work.wait_for_ever" in more  # the banner names the tasks
    jobs.send("work.fail", ["on purpose"])
    _, silent = program.run("worker", "--until-empty", "-v", "0")
    line, *traceback = silent.splitlines()
    assert "failed for good" in line
    assert traceback[0].startswith("Traceback") and traceback[-1] == "ValueError: on purpose"


@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
def test_streams_that_are_closed_hurt_no_job(program, jobs, closed):
    job = jobs.send("work.note", ["one"])
    shut = {"stdout": ">&-", "stderr": "2>&-", "both": ">&- 2>&-"}[closed]
    command = f"exec {sys.executable} -m tinyjobs worker --until-empty --app work:app {shut}"
    worker = program._start(["/bin/sh", "-c", command], program.folder)
    assert worker.ends() == 0
    assert jobs.get(job).status is JobStatus.SUCCESS


def test_a_reader_who_goes_away_hurts_no_job(program, jobs):
    job = jobs.send("work.note", ["one"])
    gone, theirs = os.pipe()
    os.close(gone)
    try:
        worker = program.start("worker", "--until-empty", stdout=theirs, stderr=subprocess.DEVNULL)
        assert worker.ends() == 0
    finally:
        os.close(theirs)
    assert jobs.get(job).status is JobStatus.SUCCESS


def test_a_worker_that_knows_no_tasks_says_so_and_hands_jobs_back(program, jobs):
    program.write("empty.py", "from tinyjobs import TinyJobs\napp = TinyJobs('sqlite:///jobs.db')\n")
    job = jobs.send("work.note", ["one"])
    status, output = program.run("worker", "--until-empty", app="empty:app")
    assert status == 0
    assert "No tasks were found" in output
    assert "'work.note'" in output  # whom nobody here can run
    left = jobs.get(job)
    assert (left.status, left.attempts, left.hand_backs) == (JobStatus.QUEUED, 0, 1)


def test_a_lock_that_somebody_keeps_does_not_keep_the_worker(start, tmp_path):
    """Neither its outcomes nor its renewals of leases wait beyond the stop, however patient the store is otherwise."""
    (tmp_path / "patient.py").write_text(
        "import asyncio\n"
        "from tinyjobs import TinyJobs\n"
        "app = TinyJobs('sqlite:///jobs.db?busy_timeout=3600')\n"
        "@app.task\n"
        "async def wait_for_ever():\n"
        "    print('began', flush=True)\n"
        "    await asyncio.sleep(3600)\n"
    )
    with TinyJobs(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.send("patient.wait_for_ever")
    command = [sys.executable, "-m", "tinyjobs", "worker", "--app", "patient:app", "--lease", "1"]
    worker = start([*command, "--shutdown-timeout", "1"], tmp_path)
    worker.wait_for("began")
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None, timeout=PATIENCE)) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
        somebody.rollback()


def test_what_still_waits_for_the_store_at_the_end_is_cut_before_the_store_is_closed(tmp_path, monkeypatch):
    """Else the end of the process would wait for a renewal of leases that waits for somebody's lock."""
    with TinyJobs(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.setup()
        store = app.engine.store
        seen = []
        monkeypatch.setattr(store, "hurry", lambda deadline: seen.append(deadline))

        class Closing:
            async def close_worker(self):
                seen.append("closed")

        before = time.monotonic()
        asyncio.run(_run(app.worker(until_empty=True, handle_signals=False), Closing()))
        assert seen[-1] == "closed"
        assert before <= seen[-2] <= time.monotonic()


def test_a_cursor_that_no_page_named_is_refused(program):
    assert program.run("jobs", "list", "--cursor", "zz") == (
        2,
        "tinyjobs: cursor: 'zz' is none; give the one that the page before it named.",
    )
