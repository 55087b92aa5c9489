-- What outcomes of every kind add to the tallies, from the jobs' rows before they change. Owned by the worker, or by
-- whom the caller names. What was given back has ended nothing.
INSERT INTO {prefix}_tallies (
    minute, owner, queue, success, failed, cancelled, succeeded, unsuccessful, ended_cancelled, waited, ran,
    longest_wait, longest_run
)
SELECT CAST(ended_at / 60 AS INTEGER), owner, queue, sum(status = 'success'), sum(status = 'failed'),
    sum(status = 'cancelled'), sum(attempt = 'success'), sum(attempt IN ('failed', 'timeout', 'lost')),
    sum(status = 'cancelled'), sum(waited), sum(ran), max(waited), max(ran)
FROM (
    SELECT ended_at, owner, queue, status, attempt,
        CASE WHEN attempt = '' THEN 0 ELSE max(started_at - run_at, 0) END AS waited,
        CASE WHEN attempt = '' THEN 0 ELSE max(ended_at - started_at, 0) END AS ran
    FROM (
        SELECT coalesce(json_extract(outcome.value, '$[10]'), json_extract(outcome.value, '$[6]')) AS ended_at,
            coalesce(%s, job.worker_id) AS owner, job.queue, job.run_at, job.started_at,
            json_extract(outcome.value, '$[2]') AS status,
            CASE WHEN json_extract(outcome.value, '$[9]') IN ('success', 'failed', 'timeout', 'lost')
                THEN json_extract(outcome.value, '$[9]') ELSE '' END AS attempt
        FROM json_each(%s) AS outcome
        CROSS JOIN {prefix}_jobs AS job ON job.id = json_extract(outcome.value, '$[0]')
        WHERE job.claims = json_extract(outcome.value, '$[1]') AND job.lease_expires_at IS NOT NULL
    )
    WHERE attempt <> '' OR status <> 'queued'
)
GROUP BY 1, 2, 3
{part:added_up}
