-- The attempt's history row, from the job's own row, before that row changes.
INSERT OR REPLACE INTO {prefix}_executions (
    job_id, claim, attempt, status, worker_id, started_at, finished_at, error_type, traceback
)
SELECT job.id, job.claims, job.attempts, json_extract(outcome.value, '$[9]'), job.worker_id, job.started_at,
    json_extract(outcome.value, '$[10]'), json_extract(outcome.value, '$[11]'), json_extract(outcome.value, '$[12]')
FROM json_each(%s) AS outcome
CROSS JOIN {prefix}_jobs AS job ON job.id = json_extract(outcome.value, '$[0]')
WHERE job.claims = json_extract(outcome.value, '$[1]') AND job.lease_expires_at IS NOT NULL
    AND json_extract(outcome.value, '$[9]') IS NOT NULL
