SELECT job_id, attempt, claim, status, worker_id, started_at, finished_at, error_type, traceback
FROM {tables}_executions WHERE job_id = %s::text ORDER BY claim
