-- Few rows: they are found by their own column and sorted.
SELECT {listing} FROM {prefix}_jobs
WHERE lease_expires_at IS NOT NULL
    AND id < %s
    AND (%s IS NULL OR queue = %s)
    AND (%s IS NULL OR task = %s)
ORDER BY id DESC
LIMIT %s
