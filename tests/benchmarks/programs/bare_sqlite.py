"""The floor under a drain: a bare loop over sqlite3 on this project's own tables, with all of their indexes.

It claims a group, records it and claims the next in one transaction, writes what a worker must write (the job's row
twice, its execution once), and knows nothing else: no codec, no event loop, no lease keeper, no retries.
"""

from __future__ import annotations

import signal
import sqlite3
import time

import ours
from board import mark
from measuring import main
from ours_facade import Facade

CLAIM = f"""
    UPDATE {ours.JOBS}
    SET status = 'running', attempts = attempts + 1, claims = claims + 1, worker_id = ?, started_at = ?,
        lease_expires_at = ?, ready_at = NULL
    WHERE id IN (
        SELECT id FROM {ours.JOBS} WHERE queue = 'default' AND ready_at IS NOT NULL
        ORDER BY priority DESC, ready_at, id LIMIT ?
    )
    RETURNING id, claims, attempts, started_at"""
RECORD = f"""
    UPDATE {ours.JOBS} SET status = 'success', finished_at = ?, lease_expires_at = NULL, active_key = NULL
    WHERE id = ? AND claims = ?"""
EXECUTION = f"""
    INSERT INTO {ours.EXECUTIONS} (job_id, claim, attempt, status, worker_id, started_at, finished_at)
    VALUES (?, ?, ?, 'success', ?, ?, ?)"""


class Bare(Facade):
    name = "bare sqlite3 loop"
    shapes = ("drain",)
    kinds = ("coroutine",)

    def work(self) -> None:
        stopped: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
        connection = sqlite3.connect(self.arguments.store, isolation_level=None, timeout=30)
        connection.execute("PRAGMA synchronous = NORMAL")
        group = self.arguments.slots or 128
        held: list[tuple[str, int, int, float]] = []
        while not stopped:
            now = time.time()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(EXECUTION, [(i, c, a, "bare", s, now) for i, c, a, s in held])
            connection.executemany(RECORD, [(now, i, c) for i, c, _, _ in held])
            held = connection.execute(CLAIM, ("bare", now, now + 60, group)).fetchall()
            connection.execute("COMMIT")
            for _ in held:
                mark()
            if not held:
                time.sleep(0.01)


if __name__ == "__main__":
    main(Bare)
