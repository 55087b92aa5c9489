"""A large store, made fast: 400,000 rows of every kind, mixed, so that nothing a plan needs stands together by luck.

100,000 jobs ready in ten queues of very different sizes, 100,000 delayed ones of a higher priority, 200,000 finished
ones with their executions, and a few hundred that run, are held, or wait.
"""

import sqlite3
from pathlib import Path

from tests.sqlite.stores import make_store
from tinyjobs.core.inline import finish

READY, DELAYED, FINISHED, RUNNING = 100_000, 100_000, 200_000, 400
#: The frozen clock's own start: ready jobs are older, delayed ones younger.
NOW = 1_700_000_000.0

# Of every four rows one is ready, one delayed and two are finished; ids go up with the row's number.
JOBS = """
    WITH RECURSIVE row (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM row WHERE n < 399999)
    INSERT INTO tinyjobs_jobs (
        id, task, queue, status, priority, attempts, max_attempts, claims, run_at, created_at, started_at, finished_at,
        ready_at, due_at, expires_at, lapses_at, dedup_key, active_key, worker_id, payload, result
    )
    SELECT
        printf('018bc000-%04x-7000-8000-%012x', n / 65536, n),
        'shop.tasks.' || char(97 + n / 4 % 7),
        'queue' || CASE WHEN n / 4 % 100 < 60 THEN 0 ELSE n / 4 % 10 END,
        CASE WHEN n % 4 < 2 THEN 'queued' WHEN n % 40 = 2 THEN 'failed' WHEN n % 40 = 3 THEN 'cancelled'
            ELSE 'success' END,
        CASE WHEN n % 4 = 1 THEN 100 + n % 3 ELSE n % 5 END,
        n % 4 > 1, 3, n % 4 > 1,
        CASE n % 4 WHEN 0 THEN {now} - 500000 + n WHEN 1 THEN {now} + 1000 + n ELSE {now} - 600000 + n END,
        {now} - 700000 + n,
        CASE WHEN n % 4 > 1 THEN {now} - 600000 + n END,
        CASE WHEN n % 4 > 1 THEN {now} - 600000 + n + 1 END,
        CASE n % 4 WHEN 0 THEN {now} - 500000 + n END,
        CASE n % 4 WHEN 1 THEN {now} + 1000 + n END,
        CASE WHEN n % 5 = 0 THEN {now} - 100000 + n END,
        CASE WHEN n % 5 = 0 AND n % 4 < 2 THEN {now} - 100000 + n END,
        CASE WHEN n % 10 = 0 THEN 'key' || n END,
        CASE WHEN n % 10 = 0 AND n % 4 < 2 THEN 'key' || n END,
        CASE WHEN n % 4 > 1 THEN 'worker' END,
        zeroblob(80),
        CASE WHEN n % 4 > 1 THEN zeroblob(20) END
    FROM row
"""
RUNNING_JOBS = """
    UPDATE tinyjobs_jobs
    SET status = 'running', ready_at = NULL, lapses_at = NULL,
        lease_expires_at = {now} + priority * 100 - 150, started_at = {now} - 200,
        worker_id = 'worker', attempts = 1, claims = 1
    WHERE id IN (SELECT id FROM tinyjobs_jobs WHERE ready_at IS NOT NULL ORDER BY id DESC LIMIT 400)
"""
OTHERS = """
    INSERT INTO tinyjobs_jobs (id, task, queue, status, run_at, created_at, held_at, waiting_on, payload)
    SELECT replace(id, '-7000-', '-7' || kind.tag || '-'), task, queue, kind.status, run_at, created_at,
        CASE kind.status WHEN 'held' THEN run_at END, CASE kind.status WHEN 'waiting' THEN id END, x'00'
    FROM (SELECT 'held' AS status, '00a' AS tag UNION ALL SELECT 'waiting', '00b') AS kind
    CROSS JOIN (SELECT * FROM tinyjobs_jobs WHERE ready_at IS NOT NULL ORDER BY id LIMIT 300)
"""
EXECUTIONS = """
    INSERT INTO tinyjobs_executions (job_id, claim, attempt, status, worker_id, started_at, finished_at)
    SELECT id, claims, attempts, status, 'worker', started_at, finished_at FROM tinyjobs_jobs
    WHERE finished_at IS NOT NULL ORDER BY id
"""


def fill(path: Path) -> None:
    """Lay the store out and fill it. Indexes are made last, which is several times faster."""
    store = make_store(path)
    finish(store.inline().close())
    connection = sqlite3.connect(path, isolation_level=None)
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    ).fetchall()
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -200000")
    connection.execute("BEGIN")
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    connection.execute(JOBS.format(now=NOW))
    for _, sql in indexes:
        connection.execute(sql)
    connection.execute(RUNNING_JOBS.format(now=NOW))
    connection.execute(OTHERS)
    connection.execute(EXECUTIONS)
    connection.execute("COMMIT")
    connection.close()
