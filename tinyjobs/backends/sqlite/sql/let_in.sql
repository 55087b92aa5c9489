-- Delayed jobs whose time has come, oldest first, a bounded number at once.
UPDATE {prefix}_jobs
SET ready_at = due_at, due_at = NULL
WHERE id IN (
    SELECT id FROM {prefix}_jobs WHERE due_at IS NOT NULL AND due_at <= %s ORDER BY due_at, id LIMIT %s
)
