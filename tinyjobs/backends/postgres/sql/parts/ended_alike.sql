-- Successes that are alike but for job and time; fenced by the claim like every other outcome. Their instants were read
-- on the worker's own clock and are moved onto this one by the difference of both presents.
given AS MATERIALIZED (
    SELECT outcome.id, outcome.at + clock.present - %s::float8 AS at, outcome.claim, outcome.place
    FROM clock, unnest(
        string_to_array(%s::text, ','), string_to_array(%s::text, ',')::int[], string_to_array(%s::text, ',')::float8[]
    ) WITH ORDINALITY AS outcome (id, claim, at, place)
),
ended AS (
    UPDATE {tables}_jobs AS job
    SET status = 'success', finished_at = given.at, hand_backs = 0, active_key = NULL, lease_expires_at = NULL,
        last_error = NULL, result = %s::bytea
    FROM given
    WHERE job.id = given.id AND job.claims = given.claim AND job.lease_expires_at IS NOT NULL
    RETURNING given.place, job.id, job.claims, job.attempts, job.worker_id, job.started_at, job.finished_at,
        job.queue, greatest(job.started_at - job.run_at, 0) AS waited, greatest(given.at - job.started_at, 0) AS ran
),
history AS (
    INSERT INTO {tables}_executions (job_id, claim, attempt, status, worker_id, started_at, finished_at)
    SELECT id, claims, attempts, 'success', worker_id, started_at, finished_at FROM ended
    ON CONFLICT (job_id, claim) DO UPDATE SET
        attempt = excluded.attempt, status = excluded.status, worker_id = excluded.worker_id,
        started_at = excluded.started_at, finished_at = excluded.finished_at, error_type = NULL, traceback = NULL
),
tallied AS (
    INSERT INTO {tables}_tallies AS tally (
        minute, owner, queue, success, succeeded, waited, ran, longest_wait, longest_run
    )
    SELECT floor(finished_at / 60)::bigint, worker_id, queue, count(*), count(*), sum(waited), sum(ran), max(waited),
        max(ran)
    FROM ended
    GROUP BY 1, 2, 3
    ORDER BY 1, 2, 3
    {part:added_up}
)
