SELECT worker_id, host, pid, version, queues, threads, coroutines, running, is_stopping, started_at, scheduled_at, seen_at
FROM {tables}_workers
WHERE seen_at > {part:now} - %s::float8
ORDER BY started_at, worker_id
