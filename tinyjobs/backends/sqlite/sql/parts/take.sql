-- What a claim does to a job: the next attempt begins, under a new claim and a lease.
UPDATE {prefix}_jobs
SET status = 'running', attempts = attempts + 1, claims = claims + 1, worker_id = %s, started_at = %s,
    lease_expires_at = %s, ready_at = NULL, lapses_at = NULL
