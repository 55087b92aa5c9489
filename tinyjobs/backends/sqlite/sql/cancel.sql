UPDATE {prefix}_jobs
SET status = 'cancelled', finished_at = %s, ready_at = NULL, due_at = NULL, lease_expires_at = NULL,
    held_at = NULL, lapses_at = NULL, waiting_on = NULL, active_key = NULL
WHERE id = %s AND finished_at IS NULL
