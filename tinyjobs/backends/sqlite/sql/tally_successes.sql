-- What successes that are alike but for job and time add to the tallies, from the jobs' rows before they change.
INSERT INTO {prefix}_tallies (
    minute, owner, queue, success, succeeded, waited, ran, longest_wait, longest_run
)
SELECT CAST(outcome.value / 60 AS INTEGER), job.worker_id, job.queue, count(*), count(*),
    sum(max(job.started_at - job.run_at, 0)), sum(max(outcome.value - job.started_at, 0)),
    max(max(job.started_at - job.run_at, 0)), max(max(outcome.value - job.started_at, 0))
FROM json_each(%s) AS outcome
CROSS JOIN {prefix}_jobs AS job ON job.id = outcome.key
WHERE job.claims = %s AND job.lease_expires_at IS NOT NULL
GROUP BY 1, 2, 3
{part:added_up}
