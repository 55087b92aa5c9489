-- Instants that the worker read on its own clock are moved onto this one by the difference of both presents.
INSERT OR REPLACE INTO {prefix}_workers (
    worker_id, host, pid, version, queues, threads, coroutines, running, is_stopping, started_at, scheduled_at, seen_at
)
SELECT given.worker_id, given.host, given.pid, given.version, given.queues, given.threads, given.coroutines,
    given.running, given.is_stopping, given.started_at + (present - told), given.scheduled_at + (present - told), present
FROM (
    SELECT %s AS worker_id, %s AS host, %s AS pid, %s AS version, %s AS queues, %s AS threads, %s AS coroutines,
        %s AS running, %s AS is_stopping, %s AS started_at, %s AS scheduled_at, %s AS present, %s AS told
) AS given
