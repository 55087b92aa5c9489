-- A job no worker ever took keeps its time, and its expiry if that is still to come; any other is to run whenever its
-- turn comes. The job is locked already.
WITH clock AS (SELECT {part:now} AS present),
before AS MATERIALIZED (
    SELECT id, queue, status FROM {tables}_jobs WHERE id = %s::text AND status IN ('failed', 'cancelled') FOR UPDATE
),
tallied AS (
    INSERT INTO {tables}_tallies AS tally (minute, owner, queue, failed, cancelled)
    SELECT floor(present / 60)::bigint, id, queue, -(status = 'failed')::int, -(status = 'cancelled')::int
    FROM before, clock
    {part:added_up}
)
UPDATE {tables}_jobs AS job
SET status = 'queued', attempts = 0, hand_backs = 0, finished_at = NULL, started_at = NULL, worker_id = NULL,
    result = NULL, active_key = encode(sha256(convert_to(dedup_key, 'UTF8')), 'hex'),
    run_at = CASE WHEN claims = 0 THEN run_at ELSE clock.present END,
    ready_at = CASE WHEN claims > 0 THEN clock.present WHEN run_at <= clock.present THEN run_at END,
    due_at = CASE WHEN claims = 0 AND run_at > clock.present THEN run_at END,
    expires_at = CASE WHEN claims = 0 AND expires_at > clock.present THEN expires_at END,
    lapses_at = CASE WHEN claims = 0 AND expires_at > clock.present THEN expires_at END
FROM before, clock
WHERE job.id = before.id
