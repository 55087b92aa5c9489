-- One row for each queue and kind of live job, with the oldest instant since which one of them is due.
SELECT queue, 'ready', count(*), min(ready_at) FROM {tables}_jobs WHERE ready_at IS NOT NULL GROUP BY queue
UNION ALL
SELECT queue, CASE WHEN due_at <= %s::float8 THEN 'ready' ELSE 'delayed' END AS kind, count(*), min(due_at)
FROM {tables}_jobs WHERE due_at IS NOT NULL GROUP BY queue, kind
UNION ALL
SELECT queue, 'running', count(*), NULL FROM {tables}_jobs WHERE status = 'running' GROUP BY queue
UNION ALL
SELECT queue, 'held', count(*), min(run_at) FROM {tables}_jobs WHERE held_at IS NOT NULL GROUP BY queue
UNION ALL
SELECT queue, 'waiting', count(*), NULL FROM {tables}_jobs WHERE waiting_on IS NOT NULL GROUP BY queue
