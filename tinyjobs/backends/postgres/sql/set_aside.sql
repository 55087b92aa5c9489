-- A row that cannot be read as a job: out of every index of what is to be done, so that it holds up no other.
UPDATE {tables}_jobs
SET status = 'failed', finished_at = {part:now},
    last_error = %s::text, ready_at = NULL, due_at = NULL, lease_expires_at = NULL, held_at = NULL, lapses_at = NULL,
    waiting_on = NULL, active_key = NULL
WHERE id = %s::text
