-- Delayed jobs whose time has come, oldest first, a bounded number at once; those another worker is letting in are
-- left to it.
UPDATE {tables}_jobs
SET ready_at = due_at, due_at = NULL
WHERE id = ANY (ARRAY(
    SELECT id FROM {tables}_jobs
    WHERE due_at IS NOT NULL AND due_at <= {part:now}
    ORDER BY due_at, id
    LIMIT %s::int
    FOR UPDATE SKIP LOCKED
))
