UPDATE {prefix}_jobs
SET status = 'cancelled', finished_at = %s, last_error = %s, ready_at = NULL, due_at = NULL, held_at = NULL,
    lapses_at = NULL, waiting_on = NULL, active_key = NULL
WHERE id IN (SELECT value FROM json_each(%s)) AND lapses_at <= %s
