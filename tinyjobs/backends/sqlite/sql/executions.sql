SELECT job_id, attempt, claim, status, worker_id, started_at, finished_at, error_type, traceback
FROM {prefix}_executions WHERE job_id = %s ORDER BY claim
