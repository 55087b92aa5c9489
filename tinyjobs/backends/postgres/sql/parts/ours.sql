-- The heads of each served queue's range of the ready index, merged. As many are locked in each queue as the merge gives
-- it, past those that another claim is taking. Where a queue has fewer that are free than the merge counted on, such as
-- while somebody keeps its first job locked, the other queues' next ones come in: a locked job holds up nobody. Only
-- then may a claim lock a few that it does not take.
{part:served},
{part:line_up},
free AS MATERIALIZED (
    SELECT line.id, line.priority, line.ready_at, line.task FROM share CROSS JOIN LATERAL (
        SELECT id, priority, ready_at, task FROM {tables}_jobs
        WHERE queue = share.queue AND ready_at IS NOT NULL
        ORDER BY priority DESC, ready_at, id
        LIMIT share.most
        FOR UPDATE SKIP LOCKED
    ) AS line
),
short AS MATERIALIZED (
    SELECT CASE
        WHEN (SELECT count(*) FROM served) = 1 THEN 0
        ELSE (SELECT count(*) FROM heads) - (SELECT count(*) FROM free)
    END AS most
),
ours AS MATERIALIZED (
    SELECT id, priority, ready_at, task FROM free
    UNION ALL
    (
        SELECT line.id, line.priority, line.ready_at, line.task FROM short, served CROSS JOIN LATERAL (
            SELECT id, priority, ready_at, task FROM {tables}_jobs
            WHERE queue = served.queue AND ready_at IS NOT NULL AND id <> ALL (ARRAY(SELECT id FROM free))
            ORDER BY priority DESC, ready_at, id
            LIMIT short.most
            FOR UPDATE SKIP LOCKED
        ) AS line
        WHERE short.most > 0
        ORDER BY line.priority DESC, line.ready_at, line.id
        LIMIT (SELECT most FROM short)
    )
)
