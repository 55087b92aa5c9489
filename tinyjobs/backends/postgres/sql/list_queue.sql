-- One queue, any status: its own index in the same order.
SELECT {listing} FROM {tables}_jobs
WHERE queue = %s::text
    AND id < %s::text
    AND (%s::text IS NULL OR task = %s::text)
ORDER BY id DESC
LIMIT %s::int
