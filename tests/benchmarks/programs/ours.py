"""Where this project's own jobs stand in the store: what both of its programs ask.

SQL stores are asked by their tables, from outside. A Redis is asked by the app's own figures: they are its counters.
"""

from __future__ import annotations

from typing import Any

from store import Connection, PostgresStore, SQLiteStore

JOBS = "tinyjobs_jobs"
EXECUTIONS = "tinyjobs_executions"


def unfinished(store: SQLiteStore | PostgresStore, connection: Connection) -> bool:
    """Whether a job is ready, due or running. Each is a question of its own, for the index it may have."""
    return any(
        connection.execute(f"SELECT 1 FROM {JOBS} WHERE {condition} LIMIT 1").fetchone()
        for condition in ("ready_at IS NOT NULL", "lease_expires_at IS NOT NULL", f"due_at <= {store.seconds_now}")
    )


def unfinished_of(stats: Any) -> bool:
    """The same by the app's figures."""
    return any(queue.ready or queue.running for queue in stats.queues)
