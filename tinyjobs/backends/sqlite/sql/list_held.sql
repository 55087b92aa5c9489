-- Found by the column that is set only while a job is held.
SELECT {listing} FROM {prefix}_jobs
WHERE held_at IS NOT NULL
    AND id < %s
    AND (%s IS NULL OR queue = %s)
    AND (%s IS NULL OR task = %s)
ORDER BY id DESC
LIMIT %s
