SELECT worker_id, host, pid, version, queues, threads, coroutines, running, is_stopping, started_at, scheduled_at, seen_at
FROM {prefix}_workers
WHERE seen_at > %s - %s
ORDER BY started_at, worker_id
