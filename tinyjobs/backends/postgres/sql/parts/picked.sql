-- The heads of each served queue's range of the ready index, merged: by priority, then age. Ready jobs are never sorted
-- as a whole. First it is counted how many of the heads are each queue's; then as many are locked in each, past those
-- that another claim is taking, so that no claim ever locks a job that it does not take.
{part:served},
heads AS MATERIALIZED (
    SELECT served.queue FROM asked, served CROSS JOIN LATERAL (
        SELECT id, priority, ready_at FROM {tables}_jobs
        WHERE queue = served.queue AND ready_at IS NOT NULL
        ORDER BY priority DESC, ready_at, id
        LIMIT asked.most
    ) AS line
    ORDER BY line.priority DESC, line.ready_at, line.id
    LIMIT (SELECT most FROM asked)
),
share AS MATERIALIZED (
    SELECT served.queue,
        CASE
            WHEN (SELECT count(*) FROM served) = 1 THEN asked.most
            ELSE (SELECT count(*) FROM heads WHERE heads.queue = served.queue)
        END AS most
    FROM asked, served
),
picked AS (
    SELECT line.id FROM share CROSS JOIN LATERAL (
        SELECT id FROM {tables}_jobs
        WHERE queue = share.queue AND ready_at IS NOT NULL
        ORDER BY priority DESC, ready_at, id
        LIMIT share.most
        FOR UPDATE SKIP LOCKED
    ) AS line
)
