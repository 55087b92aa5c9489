-- How many of the merged heads of the served queues are each queue's, by priority, then age. Ready jobs are never sorted
-- as a whole.
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
)
