-- Nearly every row of a store that has run for a while, so the walk along the primary key ends soon.
SELECT {listing} FROM {prefix}_jobs
WHERE status = 'success'
    AND id < %s
    AND (%s IS NULL OR queue = %s)
    AND (%s IS NULL OR task = %s)
ORDER BY id DESC
LIMIT %s
