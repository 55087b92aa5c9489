-- A cancelled running attempt stays in the history as cancelled; its worker's own outcome will be refused. The job is
-- locked first, so that what is written is what it was when it ended, and so that nobody else writes the tallies it owns.
WITH clock AS (SELECT {part:now} AS present),
before AS MATERIALIZED (
    SELECT id, claims, attempts, worker_id, started_at, lease_expires_at, queue FROM {tables}_jobs
    WHERE id = %s::text AND finished_at IS NULL
    FOR UPDATE
),
history AS (
    INSERT INTO {tables}_executions (job_id, claim, attempt, status, worker_id, started_at, finished_at)
    SELECT id, claims, attempts, 'cancelled', worker_id, started_at, present FROM before, clock
    WHERE lease_expires_at IS NOT NULL
    ON CONFLICT (job_id, claim) DO UPDATE SET status = excluded.status, finished_at = excluded.finished_at
),
tallied AS (
    INSERT INTO {tables}_tallies AS tally (minute, owner, queue, cancelled, ended_cancelled)
    SELECT floor(present / 60)::bigint, id, queue, 1, 1 FROM before, clock
    {part:added_up}
)
UPDATE {tables}_jobs AS job
SET status = 'cancelled', finished_at = present, ready_at = NULL, due_at = NULL, lease_expires_at = NULL,
    held_at = NULL, lapses_at = NULL, waiting_on = NULL, active_key = NULL
FROM before, clock
WHERE job.id = before.id
