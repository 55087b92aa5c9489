-- Newest first: ids sort by the time they were made, so the primary key is the order.
SELECT {listing} FROM {prefix}_jobs
WHERE true
    AND id < %s
    AND (%s IS NULL OR queue = %s)
    AND (%s IS NULL OR task = %s)
ORDER BY id DESC
LIMIT %s
