-- One queue, any status: its own index in the same order.
SELECT {listing} FROM {prefix}_jobs
WHERE queue = %s
    AND id < %s
    AND (%s IS NULL OR task = %s)
ORDER BY id DESC
LIMIT %s
