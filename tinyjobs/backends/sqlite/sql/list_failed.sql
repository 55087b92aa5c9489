-- The second condition names the partial index.
SELECT {listing} FROM {prefix}_jobs
WHERE status = 'failed' AND status IN ('failed', 'cancelled')
    AND id < %s
    AND (%s IS NULL OR queue = %s)
    AND (%s IS NULL OR task = %s)
ORDER BY id DESC
LIMIT %s
