-- Every kind of outcome at once; fenced by the claim, so one that came too late changes nothing. Instants were read on
-- the worker's own clock and are moved onto this one by the difference of both presents; the time a job keeps is not.
-- A job of which every claim was handed back has not started yet, and so may still expire.
given AS MATERIALIZED (
    SELECT place, o ->> 0 AS id, (o ->> 1)::int AS claim, o ->> 2 AS status, (o ->> 3)::int AS attempts,
        (o ->> 4)::int AS hand_backs, (o ->> 5)::float8 AS run_at, (o ->> 6)::float8 + skew AS finished_at,
        convert_to(o ->> 7, 'UTF8') AS result, o ->> 8 AS last_error, o ->> 9 AS ended_as,
        (o ->> 10)::float8 + skew AS ended_at, o ->> 11 AS error_type, o ->> 12 AS traceback, skew
    FROM (SELECT present - %s::float8 AS skew FROM clock) AS difference
    CROSS JOIN json_array_elements(%s::json) WITH ORDINALITY AS outcome (o, place)
),
ended AS (
    UPDATE {tables}_jobs AS job
    SET status = given.status,
        attempts = given.attempts,
        hand_backs = given.hand_backs,
        run_at = moved.run_at,
        ready_at = CASE WHEN given.status = 'queued' AND moved.run_at <= clock.present THEN moved.run_at END,
        due_at = CASE WHEN given.status = 'queued' AND moved.run_at > clock.present THEN moved.run_at END,
        lapses_at = CASE WHEN given.status = 'queued' AND given.hand_backs = job.claims THEN job.expires_at END,
        finished_at = given.finished_at,
        started_at = CASE WHEN given.status IN ('queued', 'cancelled') THEN NULL ELSE job.started_at END,
        worker_id = CASE WHEN given.status = 'queued' THEN NULL ELSE job.worker_id END,
        active_key = CASE WHEN given.status = 'queued' THEN job.active_key END,
        lease_expires_at = NULL,
        result = given.result,
        last_error = given.last_error
    FROM clock, given
    JOIN {tables}_jobs AS before ON before.id = given.id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN given.run_at = before.run_at THEN before.run_at ELSE given.run_at + given.skew END AS run_at
    ) AS moved
    WHERE job.id = given.id AND job.claims = given.claim AND job.lease_expires_at IS NOT NULL
    RETURNING given.place, given.ended_as, given.ended_at, given.error_type, given.traceback,
        before.id, before.claims, before.attempts, before.worker_id, before.started_at, before.queue, given.status,
        given.ended_as IN ('success', 'failed', 'timeout', 'lost') AS is_attempt,
        coalesce(given.ended_at, given.finished_at) AS over_at, greatest(before.started_at - before.run_at, 0) AS waited,
        greatest(given.ended_at - before.started_at, 0) AS ran
),
history AS (
    INSERT INTO {tables}_executions (
        job_id, claim, attempt, status, worker_id, started_at, finished_at, error_type, traceback
    )
    SELECT id, claims, attempts, ended_as, worker_id, started_at, ended_at, error_type, traceback
    FROM ended WHERE ended_as IS NOT NULL
    ON CONFLICT (job_id, claim) DO UPDATE SET
        attempt = excluded.attempt, status = excluded.status, worker_id = excluded.worker_id,
        started_at = excluded.started_at, finished_at = excluded.finished_at, error_type = excluded.error_type,
        traceback = excluded.traceback
),
tallied AS (
    INSERT INTO {tables}_tallies AS tally (
        minute, owner, queue, success, failed, cancelled, succeeded, unsuccessful, ended_cancelled, waited, ran,
        longest_wait, longest_run
    )
    SELECT floor(over_at / 60)::bigint, coalesce(%s::text, worker_id), queue,
        count(*) FILTER (WHERE status = 'success'), count(*) FILTER (WHERE status = 'failed'),
        count(*) FILTER (WHERE status = 'cancelled'), count(*) FILTER (WHERE is_attempt AND ended_as = 'success'),
        count(*) FILTER (WHERE is_attempt AND ended_as <> 'success'), count(*) FILTER (WHERE status = 'cancelled'),
        coalesce(sum(waited) FILTER (WHERE is_attempt), 0), coalesce(sum(ran) FILTER (WHERE is_attempt), 0),
        coalesce(max(waited) FILTER (WHERE is_attempt), 0), coalesce(max(ran) FILTER (WHERE is_attempt), 0)
    FROM ended
    WHERE is_attempt OR status <> 'queued'
    GROUP BY 1, 2, 3
    ORDER BY 1, 2, 3
    {part:added_up}
)
