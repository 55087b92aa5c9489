-- A key that another active job holds by now leaves the row as it is. A job no worker ever took keeps its time, and its
-- expiry if that is still to come; any other is to run whenever its turn comes.
UPDATE OR IGNORE {prefix}_jobs
SET status = 'queued', attempts = 0, hand_backs = 0, finished_at = NULL, started_at = NULL, worker_id = NULL,
    result = NULL, active_key = dedup_key,
    run_at = CASE WHEN claims = 0 THEN run_at ELSE present END,
    ready_at = CASE WHEN claims > 0 THEN present WHEN run_at <= present THEN run_at END,
    due_at = CASE WHEN claims = 0 AND run_at > present THEN run_at END,
    expires_at = CASE WHEN claims = 0 AND expires_at > present THEN expires_at END,
    lapses_at = CASE WHEN claims = 0 AND expires_at > present THEN expires_at END
FROM (SELECT %s AS present) AS clock
WHERE id = %s AND status IN ('failed', 'cancelled')
