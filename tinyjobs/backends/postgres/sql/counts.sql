SELECT 'queued', count(*) FROM {tables}_jobs WHERE ready_at IS NOT NULL
UNION ALL SELECT 'queued', count(*) FROM {tables}_jobs WHERE due_at IS NOT NULL
UNION ALL SELECT 'running', count(*) FROM {tables}_jobs WHERE status = 'running'
UNION ALL SELECT 'held', count(*) FROM {tables}_jobs WHERE held_at IS NOT NULL
UNION ALL SELECT 'waiting', count(*) FROM {tables}_jobs WHERE waiting_on IS NOT NULL
UNION ALL SELECT status, count(*) FROM {tables}_jobs WHERE finished_at IS NOT NULL GROUP BY status
