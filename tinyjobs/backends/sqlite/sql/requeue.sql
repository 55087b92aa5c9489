-- A key that another active job holds by now leaves the row as it is. A job no worker ever took keeps its time.
UPDATE OR IGNORE {prefix}_jobs
SET status = 'queued', attempts = 0, hand_backs = 0, finished_at = NULL, started_at = NULL, worker_id = NULL,
    result = NULL, active_key = dedup_key,
    run_at = CASE WHEN claims = 0 THEN run_at ELSE %s END,
    ready_at = CASE WHEN claims > 0 THEN %s WHEN run_at <= %s THEN run_at END,
    due_at = CASE WHEN claims = 0 AND run_at > %s THEN run_at END
WHERE id = %s AND status IN ('failed', 'cancelled')
