-- A row that cannot be read as a job: out of every index of what is to be done, so that it holds up no other, and with
-- values of the right kinds, so that it can be shown.
UPDATE {prefix}_jobs
SET status = 'failed', finished_at = %s, last_error = %s, ready_at = NULL, due_at = NULL, lease_expires_at = NULL,
    held_at = NULL, lapses_at = NULL, waiting_on = NULL, active_key = NULL,
    task = CASE typeof(task) WHEN 'text' THEN task ELSE quote(task) END,
    queue = CASE typeof(queue) WHEN 'text' THEN queue ELSE quote(queue) END,
    codec = CASE typeof(codec) WHEN 'text' THEN codec ELSE quote(codec) END,
    priority = CAST(priority AS INTEGER), attempts = CAST(attempts AS INTEGER),
    max_attempts = MAX(CAST(max_attempts AS INTEGER), 1), hand_backs = CAST(hand_backs AS INTEGER),
    claims = CAST(claims AS INTEGER), run_at = CAST(run_at AS REAL), created_at = CAST(created_at AS REAL),
    expires_at = CAST(expires_at AS REAL), scheduled_for = CAST(scheduled_for AS REAL),
    payload = CAST(payload AS BLOB)
WHERE id = %s
