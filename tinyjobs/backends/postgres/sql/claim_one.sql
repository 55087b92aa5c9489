UPDATE {tables}_jobs
SET status = 'running', attempts = attempts + 1, claims = claims + 1, worker_id = %s::text, started_at = {part:now},
    lease_expires_at = {part:now} + %s::float8, ready_at = NULL, due_at = NULL, lapses_at = NULL
WHERE id = %s::text AND (ready_at IS NOT NULL OR due_at <= {part:now})
