"""Where this project's own jobs stand in the store: what both of its programs ask the store's tables."""

from __future__ import annotations

from store import Connection, PostgresStore, SQLiteStore

JOBS = "tinyjobs_jobs"
EXECUTIONS = "tinyjobs_executions"


def unfinished(store: SQLiteStore | PostgresStore, connection: Connection) -> bool:
    """Whether a job is ready, due or running. Each is a question of its own, for the index it may have."""
    return any(
        connection.execute(f"SELECT 1 FROM {JOBS} WHERE {condition} LIMIT 1").fetchone()
        for condition in ("ready_at IS NOT NULL", "lease_expires_at IS NOT NULL", f"due_at <= {store.seconds_now}")
    )
