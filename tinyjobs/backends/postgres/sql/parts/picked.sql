-- The heads of each served queue's range of the ready index, merged. As many are locked in each queue as the merge gives
-- it, past those that another claim is taking, so that no claim ever locks a job that it does not take.
{part:served},
{part:line_up},
picked AS (
    SELECT line.id FROM share CROSS JOIN LATERAL (
        SELECT id FROM {tables}_jobs
        WHERE queue = share.queue AND ready_at IS NOT NULL
        ORDER BY priority DESC, ready_at, id
        LIMIT share.most
        FOR UPDATE SKIP LOCKED
    ) AS line
)
