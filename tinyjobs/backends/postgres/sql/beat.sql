-- Instants that the worker read on its own clock are moved onto this one by the difference of both presents.
INSERT INTO {tables}_workers (
    worker_id, host, pid, version, queues, threads, coroutines, running, is_stopping, started_at, scheduled_at, seen_at
)
SELECT given.worker_id, given.host, given.pid, given.version, given.queues, given.threads, given.coroutines,
    given.running, given.is_stopping, given.started_at + (present - told), given.scheduled_at + (present - told), present
FROM (
    SELECT %s::text AS worker_id, %s::text AS host, %s::int AS pid, %s::text AS version, %s::text AS queues,
        %s::int AS threads, %s::int AS coroutines, %s::int AS running, %s::boolean AS is_stopping,
        %s::float8 AS started_at, %s::float8 AS scheduled_at, {part:now} AS present, %s::float8 AS told
) AS given
ON CONFLICT (worker_id) DO UPDATE SET
    host = excluded.host, pid = excluded.pid, version = excluded.version, queues = excluded.queues,
    threads = excluded.threads, coroutines = excluded.coroutines, running = excluded.running,
    is_stopping = excluded.is_stopping, started_at = excluded.started_at, scheduled_at = excluded.scheduled_at,
    seen_at = excluded.seen_at
