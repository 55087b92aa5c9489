-- The heads of each served queue's range of the ready index, merged: by priority, then age. Ready jobs are never sorted
-- as a whole. Of the tasks in a room at most as many are taken as there is room for; the claim reads a bounded way past
-- the others.
{part:served},
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
