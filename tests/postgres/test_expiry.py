"""Expiry by the server's clock, and old jobs on a large Postgres."""

import json
import signal
import statistics
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from tests.crash.wrong_clocks import ShiftedClock
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.core.status import JobStatus

pytestmark = pytest.mark.postgres
HOUR = 3_600.0


@pytest.mark.parametrize("off", [-HOUR, HOUR])
def test_a_machine_with_a_wrong_clock_changes_nothing(make_app, off):
    """Neither whoever sends nor whoever runs decides when it is too late, but the server."""
    for sender, runner in ((ShiftedClock(off), SystemClock()), (SystemClock(), ShiftedClock(off))):
        sending, running = make_app(clock=sender), make_app(clock=runner)
        running.task(name="sample")(lambda: None)
        kept = sending.send("sample", expires=600.0)
        stored = running.get(kept)
        assert abs(stored.expires_at - SystemClock().now() - 600.0) < 60
        assert running.drain() == 1
        gone = sending.send("sample", expires=0.001)
        server_is_past(running, running.get(gone).expires_at)
        assert running.drain() == 0
        assert running.get(gone).status is JobStatus.CANCELLED


def server_is_past(app, instant):
    store = app.engine.store.inline()
    while finish(store.present()) <= instant:
        time.sleep(0.001)


OLD = """
INSERT INTO tinyjobs_jobs (
    id, task, queue, status, attempts, claims, run_at, created_at, started_at, finished_at, worker_id, payload
)
SELECT lpad(to_hex(n), 12, '0') || '-old', 'shop.tasks.pack', 'default', 'success', 1, 1, 1000, 1000, 1000 + n,
    1001 + n, 'worker-0', '{}'::bytea
FROM generate_series(1, %s) AS n
"""
HISTORY = """
INSERT INTO tinyjobs_executions (job_id, claim, attempt, status, worker_id, started_at, finished_at)
SELECT id, 1, 1, 'success', worker_id, started_at, finished_at FROM tinyjobs_jobs WHERE status = 'success'
"""

COUNTED = "INSERT INTO tinyjobs_tallies (minute, owner, queue, success) SELECT 0, '', '', count(*) FROM tinyjobs_jobs"


@pytest.fixture
def filled(postgres_url):
    """Fills the test's database with old jobs, whose every statement is then bounded to two seconds."""

    def fill(count):
        store = open_backend(postgres_url, clock=SystemClock())
        finish(store.inline().setup())
        finish(store.inline().close())
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(OLD, (count,))
            connection.execute(HISTORY)
            connection.execute(COUNTED)
            name = connection.info.dbname
            connection.execute(f"ALTER DATABASE \"{name}\" SET statement_timeout = '2s'")
        return postgres_url

    return fill


def test_jobs_that_others_need_stay(filled):
    """A parent whose child still waits for it, also where it stands in the middle of a batch."""
    url = filled(20)
    parent = f"{7:012x}-old"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tinyjobs_jobs (id, task, queue, status, run_at, created_at, waiting_on, runs_after, payload) "
            "VALUES ('child', 't', 'q', 'waiting', 1, 1, %s, %s, '')",
            (parent, parent),
        )
        store = open_backend(url, clock=SystemClock()).inline()
        assert finish(store.purgeable(JobStatus.SUCCESS, HOUR)) == 19
        assert finish(store.purge(JobStatus.SUCCESS, HOUR, 10)) == 10
        assert finish(store.purge(JobStatus.SUCCESS, HOUR, 10)) == 9
        assert finish(store.get(parent)).status is JobStatus.SUCCESS
        assert len(finish(store.executions(parent))) == 1
        connection.execute("UPDATE tinyjobs_jobs SET waiting_on = NULL WHERE id = 'child'")
        assert finish(store.purge(JobStatus.SUCCESS, HOUR, 10)) == 1
        finish(store.close())


def test_a_job_that_somebody_is_writing_holds_up_no_purge(filled):
    url = filled(20)
    store = open_backend(url, clock=SystemClock()).inline()
    with psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM tinyjobs_jobs WHERE id = %s FOR UPDATE", (f"{3:012x}-old",))
        assert finish(store.purge(JobStatus.SUCCESS, HOUR)) == 19
        other.rollback()
    assert finish(store.purge(JobStatus.SUCCESS, HOUR)) == 1
    finish(store.close())


@pytest.mark.slow
def test_a_purge_of_a_large_table_gets_on(filled, tmp_path):
    """300,000 old jobs, two seconds for each statement: interrupted midway it keeps what it did, and claims go on."""
    url = filled(300_000)
    (tmp_path / "program.py").write_text(f"from tinyjobs import TinyJobs\napp = TinyJobs({url!r})\n")
    store = open_backend(url, clock=SystemClock()).inline()
    command = [sys.executable, "-m", "tinyjobs", "purge", "--app", "program:app", "--older-than", "1h"]
    dry = subprocess.run([*command, "--dry-run", "--json"], cwd=tmp_path, capture_output=True, timeout=60, check=True)
    assert json.loads(dry.stdout)["deleted"]["success"] == 300_000

    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as purge:
        assert purge.stdout is not None
        for line in purge.stdout:
            if line.startswith("20000 of 300000 deleted"):
                break
        waits = [claim_takes(store) for _ in range(50)]
        purge.send_signal(signal.SIGINT)
        assert purge.wait(60) == 130
        assert purge.stderr is not None
        told = purge.stderr.read()
    left = finish(store.counts_by_status())["success"]
    assert 0 < left <= 280_000
    assert "Interrupted" in told
    assert statistics.median(waits) < 0.5, "a claim waits for a batch at most"

    rest = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, timeout=240, check=True)
    assert json.loads(rest.stdout)["deleted"]["success"] == left
    counts = finish(store.counts_by_status())
    assert counts["success"] == 0
    with psycopg.connect(url) as connection:
        ((history,),) = connection.execute("SELECT count(*) FROM tinyjobs_executions").fetchall()
    assert history == 0
    finish(store.close())


def claim_takes(store):
    began = time.monotonic()
    finish(store.claim(ClaimRequest(worker_id="w", limit=1, lease=60.0)))
    return time.monotonic() - began


def test_eight_threads_purge_each_job_once(filled):
    url = filled(2_000)
    store = open_backend(url, clock=SystemClock()).inline()
    counts, barrier = [], threading.Barrier(8)

    def work():
        barrier.wait()
        while (count := finish(store.purge(JobStatus.SUCCESS, HOUR, 100))) > 0:
            counts.append(count)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    counts.append(finish(store.purge(JobStatus.SUCCESS, HOUR)))
    assert sum(counts) == 2_000
    finish(store.close())
