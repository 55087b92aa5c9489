-- One that somebody is claiming just now is left to its worker.
UPDATE {tables}_jobs
SET status = 'cancelled', finished_at = {part:now}, last_error = %s::pg_catalog.text, ready_at = NULL, due_at = NULL,
    held_at = NULL, lapses_at = NULL, waiting_on = NULL, active_key = NULL
WHERE id = ANY (ARRAY(
    SELECT id FROM {tables}_jobs
    WHERE id = ANY (ARRAY(SELECT pg_catalog.json_array_elements_text(%s::pg_catalog.json))) AND lapses_at <= {part:now}
    ORDER BY id
    FOR UPDATE SKIP LOCKED
))
