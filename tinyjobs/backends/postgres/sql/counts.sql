-- Live jobs by their partial indexes, ended ones from what is kept of them.
SELECT 'queued', count(*) FROM {tables}_jobs WHERE ready_at IS NOT NULL
UNION ALL SELECT 'queued', count(*) FROM {tables}_jobs WHERE due_at IS NOT NULL
UNION ALL SELECT 'running', count(*) FROM {tables}_jobs WHERE status = 'running'
UNION ALL SELECT 'held', count(*) FROM {tables}_jobs WHERE held_at IS NOT NULL
UNION ALL SELECT 'waiting', count(*) FROM {tables}_jobs WHERE waiting_on IS NOT NULL
UNION ALL SELECT kept.status, kept.number
FROM (
    SELECT sum(success)::bigint AS success, sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled
    FROM {tables}_tallies
) AS summed
CROSS JOIN LATERAL (
    VALUES ('success', coalesce(success, 0)), ('failed', coalesce(failed, 0)), ('cancelled', coalesce(cancelled, 0))
) AS kept (status, number)
