-- One row for each queue and kind of live job, with the oldest instant since which one of them is due. The plus signs
-- keep the planner off the index of all jobs by queue: finished ones would be read as well, only to be left out.
SELECT queue, 'ready', count(*), min(ready_at) FROM {prefix}_jobs WHERE ready_at IS NOT NULL GROUP BY queue
UNION ALL
SELECT +queue, CASE WHEN due_at <= %s THEN 'ready' ELSE 'delayed' END, count(*), min(due_at)
FROM {prefix}_jobs WHERE due_at IS NOT NULL GROUP BY 1, 2
UNION ALL
SELECT queue, 'running', count(*), NULL FROM {prefix}_jobs WHERE lease_expires_at IS NOT NULL GROUP BY +queue
UNION ALL
SELECT queue, 'held', count(*), min(run_at) FROM {prefix}_jobs WHERE held_at IS NOT NULL GROUP BY +queue
UNION ALL
SELECT queue, 'waiting', count(*), NULL FROM {prefix}_jobs WHERE waiting_on IS NOT NULL GROUP BY +queue
