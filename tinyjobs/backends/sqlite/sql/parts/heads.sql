-- The heads of each served queue's range of the ready index, merged: by priority, then age. Ready jobs are never sorted
-- as a whole.
{part:served}
SELECT head.id
FROM served CROSS JOIN {prefix}_jobs AS head
WHERE head.id IN (
    SELECT line.id FROM {prefix}_jobs AS line
    WHERE line.queue = served.queue AND line.ready_at IS NOT NULL
    ORDER BY line.priority DESC, line.ready_at, line.id
    LIMIT %s
)
ORDER BY head.priority DESC, head.ready_at, head.id
LIMIT %s
