-- The oldest results of a task that ended between two instants.
SELECT id, finished_at FROM {tables}_jobs
WHERE status = 'success' AND finished_at IS NOT NULL AND finished_at >= %s::float8 AND finished_at <= %s::float8
    AND task = %s::text AND result IS NOT NULL
ORDER BY finished_at
LIMIT %s::int
