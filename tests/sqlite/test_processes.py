"""Several processes on one file: all of them opening it new, all of them claiming, and one that forks."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.sqlite import programs
from tests.sqlite.stores import make_job, make_store
from tinyjobs.core.inline import finish

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_together(count: int, program: Callable[..., None], *arguments: Any) -> None:
    """Run the program in that many processes, which meet at a barrier; fail when one of them does."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(count)
    processes = [context.Process(target=program, args=(*arguments, barrier, number)) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(programs.WAIT)
    codes = [process.exitcode for process in processes]
    for process in processes:
        if process.exitcode is None:
            process.kill()
    assert codes == [0] * count, f"exit codes {codes}; what went wrong is on their standard error"


def test_processes_that_open_a_fresh_file_together(tmp_path):
    """The switch to WAL needs the file alone and is refused at once, so every process has to try again."""
    rounds = 25
    run_together(8, programs.open_fresh_files, str(tmp_path), rounds)
    for round_ in range(rounds):
        store = make_store(tmp_path / f"{round_}.db")
        jobs = finish(store.inline().list()).jobs
        assert sorted(job.metadata for job in jobs) == list("01234567")


def test_each_job_runs_in_one_process(tmp_path):
    path, written = tmp_path / "jobs.db", tmp_path / "written"
    store = make_store(path)
    jobs = finish(store.inline().enqueue_many([make_job(store.clock) for _ in range(2_000)]))
    run_together(4, programs.consume, str(path), str(written))
    assert sorted(written.read_text().split()) == [job.id for job in jobs]
    counts = finish(store.inline().counts_by_status())
    assert (counts["success"], counts["queued"], counts["running"]) == (2_000, 0, 0)
    workers = {finish(store.inline().executions(job.id))[0].worker_id for job in jobs[::50]}
    assert len(workers) > 1, "one process did it all, so nothing was raced"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_has_connections_of_its_own(tmp_path):
    """A SQLite connection must not be used on both sides of a fork, nor closed in the child."""
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "tests.sqlite.programs", str(tmp_path / "jobs.db")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=programs.WAIT, check=False)
    assert done.returncode == 0, done.stderr
