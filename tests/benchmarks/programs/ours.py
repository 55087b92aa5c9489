"""Where this project's own jobs stand in the file: what both of its programs ask the store's tables."""

from __future__ import annotations

import sqlite3

JOBS = "tinyjobs_jobs"
EXECUTIONS = "tinyjobs_executions"


def unfinished(connection: sqlite3.Connection) -> bool:
    """Whether a job is ready, due or running. Each question is answered from its own small index."""
    return any(
        connection.execute(f"SELECT 1 FROM {JOBS} WHERE {condition} LIMIT 1").fetchone()
        for condition in ("ready_at IS NOT NULL", "lease_expires_at IS NOT NULL", "due_at <= unixepoch('now')")
    )
