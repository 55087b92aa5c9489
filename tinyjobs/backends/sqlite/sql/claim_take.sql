UPDATE {prefix}_jobs
SET status = 'running', attempts = attempts + 1, claims = claims + 1, worker_id = %s, started_at = %s,
    lease_expires_at = %s, ready_at = NULL
WHERE id IN (SELECT value FROM json_each(%s)) AND ready_at IS NOT NULL
