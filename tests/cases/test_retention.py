"""A large purge on SQLite: beside whoever else writes, and killed midway. On Postgres: `tests/postgres/test_expiry.py`.
What the command says and counts: `tests/cli/test_purge.py`.
"""

import json
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.sqlite.stores import make_job, make_store, request
from tinyjobs.backends.registry import open_backend
from tinyjobs.backends.sql import purge
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ScheduleState
from tinyjobs.core.status import JobStatus

OLD = 60_000
JOBS = f"""
    WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < {OLD})
    INSERT INTO tinyjobs_jobs (
        id, task, queue, status, attempts, claims, run_at, created_at, started_at, finished_at, worker_id, payload
    )
    SELECT printf('018bc000-0000-7000-8000-%012x', n), 'shop.tasks.pack', 'default', 'success', 1, 1, n, n, n, n + 1,
        'w', zeroblob(200)
    FROM row
"""
HISTORY = """
    INSERT INTO tinyjobs_executions (job_id, claim, attempt, status, worker_id, started_at, finished_at)
    SELECT id, 1, 1, 'success', 'w', 1, 2 FROM tinyjobs_jobs
"""
COUNTED = "INSERT INTO tinyjobs_tallies (minute, owner, queue, success) SELECT 0, '', '', count(*) FROM tinyjobs_jobs"
# A wait for somebody else's batch, and a great deal of slack for a machine that does something else meanwhile.
PATIENT = 2.0


@pytest.fixture
def old_file(tmp_path):
    """A file full of old jobs, and the command that purges it, for a process of its own."""
    path = tmp_path / "jobs.db"
    finish(make_store(path).inline().close())
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(JOBS)
    connection.execute(HISTORY)
    connection.execute(COUNTED)
    connection.close()
    (tmp_path / "program.py").write_text(f"from tinyjobs import TinyJobs\napp = TinyJobs('sqlite:///{path}')\n")
    command = [sys.executable, "-m", "tinyjobs", "purge", "--app", "program:app", "--older-than", "1d"]
    return path, lambda *more, **options: subprocess.Popen(
        [*command, *more], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


@pytest.mark.slow
def test_nobody_waits_for_more_than_a_batch(old_file):
    path, purge = old_file
    store = make_store(path)
    inline = store.inline()
    waits = []
    with purge("--json") as process:
        while process.poll() is None:
            job = make_job(store.clock)
            began = time.monotonic()
            finish(inline.enqueue(job))
            taken = finish(inline.claim(request(1))).jobs
            waits.append(time.monotonic() - began)
            assert [found.id for found in taken] == [job.id]
        answer = json.loads(process.stdout.read())
    assert answer["deleted"]["success"] == OLD
    assert len(waits) > 20
    assert max(waits) < PATIENT
    assert finish(inline.counts_by_status())["success"] == 0
    finish(inline.close())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_was_deleted_before_an_end_stays_so(old_file, number):
    path, purge = old_file
    with purge() as process:
        for line in process.stdout:
            if line.startswith("10000 of"):
                break
        process.send_signal(number)
        status = process.wait(60)
    assert status == (130 if number is signal.SIGINT else -signal.SIGKILL)
    store = make_store(path).inline()
    left = finish(store.counts_by_status())["success"]
    assert 0 < left <= OLD - 10_000
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM tinyjobs_executions").fetchone() == (left,)
        orphans = "SELECT count(*) FROM tinyjobs_executions WHERE job_id NOT IN (SELECT id FROM tinyjobs_jobs)"
        assert connection.execute(orphans).fetchone() == (0,)
    connection.close()
    with purge("--json") as process:
        assert json.loads(process.stdout.read())["deleted"]["success"] == left
    finish(store.close())


class Between:
    """A connection on which somebody else comes in between a look and the write that follows it."""

    def __init__(self, connection, come_in):
        self._connection = connection
        self._come_in = come_in

    async def fetch(self, statement, parameters=()):
        rows = await self._connection.fetch(statement, parameters)
        if statement.name == "sweep_recent":
            self._come_in()
        return rows

    def __getattr__(self, name):
        return getattr(self._connection, name)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_of_two_who_looked_at_the_same_moment_one_sweeps(kind, tmp_path, request):
    url = f"sqlite:///{tmp_path}/jobs.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    clock, answers = FrozenClock(), []
    stores = [open_backend(url, clock=clock) for _ in range(2)]
    first, second = (store.inline() for store in stores)
    finish(first.setup())
    finish(second.setup())

    def looks(store, come_in):
        async def verb(connection):
            return await purge.claim_sweep(store.dialect, Between(connection, come_in), 3_600.0, store.time)

        return finish(store._runner.run(verb, write=True))

    for _ in range(2):
        clock.advance(3_600.0)
        late = looks(first, lambda: answers.append(finish(second.claim_sweep(3_600.0))))
        assert (answers, late) == ([True], False)
        answers.clear()
    finish(first.close())
    finish(second.close())


def test_jobs_that_others_need_stay(tmp_path):
    """A parent whose child still waits for it, whatever its age; a schedule does not need its last job."""
    store = make_store(tmp_path / "jobs.db")
    inline = store.inline()
    for number in range(3):
        finish(inline.enqueue(make_job(store.clock, id=f"parent-{number}")))
    for job in finish(inline.claim(request(3))).jobs:
        finish(inline.complete(job))
    finish(inline.register_schedules([ScheduleState(name="n", cron="0 3 * * *", timezone="UTC", next_run_at=9e9)]))
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("UPDATE tinyjobs_schedules SET last_job_id = 'parent-0'")
        connection.execute(
            "INSERT INTO tinyjobs_jobs (id, task, queue, status, run_at, created_at, waiting_on, runs_after, payload) "
            "VALUES ('child', 't', 'q', 'waiting', 1, 1, 'parent-1', 'parent-1', '')"
        )
        connection.commit()
        assert finish(inline.purgeable(JobStatus.SUCCESS, 0.0)) == 2
        assert finish(inline.purge(JobStatus.SUCCESS, 0.0)) == 2
        assert finish(inline.get("parent-1")).status is JobStatus.SUCCESS
        assert len(finish(inline.executions("parent-1"))) == 1
        connection.execute("UPDATE tinyjobs_jobs SET waiting_on = NULL, status = 'queued' WHERE id = 'child'")
        connection.commit()
    connection.close()
    assert finish(inline.purge(JobStatus.SUCCESS, 0.0)) == 1
    finish(inline.close())
