-- The queues a claim serves: those it was asked for, or, without a list, every queue that has ready jobs, found by
-- skipping through the ready index.
WITH RECURSIVE found (queue) AS (
    SELECT CASE WHEN %s IS NULL THEN (SELECT min(queue) FROM {prefix}_jobs WHERE ready_at IS NOT NULL) END
    UNION ALL
    SELECT (
        SELECT min(ahead.queue) FROM {prefix}_jobs AS ahead
        WHERE ahead.ready_at IS NOT NULL AND ahead.queue > found.queue
    )
    FROM found WHERE found.queue IS NOT NULL
),
served (queue) AS (
    SELECT value FROM json_each(%s)
    UNION
    SELECT queue FROM found WHERE queue IS NOT NULL
)
