-- The heads of each wanted queue's range of the ready index, merged: by priority, then age. Without a list of queues
-- every queue that has ready jobs is found by skipping through the index. Ready jobs are never sorted as a whole.
-- Of the tasks in a room at most as many are taken as there is room for; the claim reads a bounded way past the others.
UPDATE {prefix}_jobs
SET status = 'running', attempts = attempts + 1, claims = claims + 1, worker_id = %s, started_at = %s,
    lease_expires_at = %s, ready_at = NULL
WHERE id IN (
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
    ),
    heads AS (
        SELECT head.id, head.priority, head.ready_at, head.task IN (SELECT value FROM json_each(%s)) AS bounded
        FROM served CROSS JOIN {prefix}_jobs AS head
        WHERE head.id IN (
            SELECT line.id FROM {prefix}_jobs AS line
            WHERE line.queue = served.queue AND line.ready_at IS NOT NULL
            ORDER BY line.priority DESC, line.ready_at, line.id
            LIMIT %s
        )
    ),
    fitting AS (
        SELECT id, priority, ready_at FROM heads WHERE NOT bounded
        UNION ALL
        SELECT id, priority, ready_at FROM (
            SELECT id, priority, ready_at FROM heads WHERE bounded
            ORDER BY priority DESC, ready_at, id
            LIMIT %s
        )
    )
    SELECT id FROM fitting
    ORDER BY priority DESC, ready_at, id
    LIMIT %s
)
RETURNING {columns}
