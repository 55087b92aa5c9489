-- The rows were locked by the read before, so this waits for nobody.
UPDATE {tables}_jobs
SET status = 'cancelled', finished_at = {part:now}, last_error = %s::text, ready_at = NULL, due_at = NULL,
    held_at = NULL, lapses_at = NULL, waiting_on = NULL, active_key = NULL
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(%s::json))) AND lapses_at IS NOT NULL
