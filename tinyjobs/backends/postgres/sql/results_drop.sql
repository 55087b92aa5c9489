-- Every worker that knows the task does this, so those that another one is at are left to it.
UPDATE {tables}_jobs SET result = NULL
WHERE id = ANY (ARRAY(
    SELECT id FROM {tables}_jobs
    WHERE id = ANY (ARRAY(SELECT json_array_elements_text(%s::json))) AND status = 'success' AND result IS NOT NULL
    ORDER BY id
    FOR UPDATE SKIP LOCKED
))
