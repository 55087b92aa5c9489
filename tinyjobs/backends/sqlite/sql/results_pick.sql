-- The oldest results of a task that ended between two instants.
SELECT id, finished_at FROM {prefix}_jobs
WHERE status = 'success' AND finished_at IS NOT NULL AND finished_at >= %s AND finished_at <= %s
    AND task = %s AND result IS NOT NULL
ORDER BY finished_at
LIMIT %s
