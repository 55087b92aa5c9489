UPDATE {prefix}_jobs
SET status = 'running', attempts = attempts + 1, claims = claims + 1, worker_id = %s, started_at = %s,
    lease_expires_at = %s + %s, ready_at = NULL, due_at = NULL, lapses_at = NULL
WHERE id = %s AND (ready_at IS NOT NULL OR due_at <= %s)
