-- The history rows of successes that are alike but for job and time, given as {"job id": ended at}; one claim number.
INSERT OR REPLACE INTO {prefix}_executions (job_id, claim, attempt, status, worker_id, started_at, finished_at)
SELECT job.id, job.claims, job.attempts, 'success', job.worker_id, job.started_at, outcome.value
FROM json_each(%s) AS outcome
CROSS JOIN {prefix}_jobs AS job ON job.id = outcome.key
WHERE job.claims = %s AND job.lease_expires_at IS NOT NULL
