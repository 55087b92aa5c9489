-- A job no worker ever took keeps its time, and its expiry if that is still to come; any other is to run whenever its
-- turn comes.
UPDATE {tables}_jobs
SET status = 'queued', attempts = 0, hand_backs = 0, finished_at = NULL, started_at = NULL, worker_id = NULL,
    result = NULL, active_key = encode(sha256(convert_to(dedup_key, 'UTF8')), 'hex'),
    run_at = CASE WHEN claims = 0 THEN run_at ELSE clock.present END,
    ready_at = CASE WHEN claims > 0 THEN clock.present WHEN run_at <= clock.present THEN run_at END,
    due_at = CASE WHEN claims = 0 AND run_at > clock.present THEN run_at END,
    expires_at = CASE WHEN claims = 0 AND expires_at > clock.present THEN expires_at END,
    lapses_at = CASE WHEN claims = 0 AND expires_at > clock.present THEN expires_at END
FROM (SELECT {part:now} AS present) AS clock
WHERE id = %s::text AND status IN ('failed', 'cancelled')
