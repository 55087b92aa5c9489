SELECT 'queued', count(*) FROM {prefix}_jobs WHERE ready_at IS NOT NULL
UNION ALL SELECT 'queued', count(*) FROM {prefix}_jobs WHERE due_at IS NOT NULL
UNION ALL SELECT 'running', count(*) FROM {prefix}_jobs WHERE lease_expires_at IS NOT NULL
UNION ALL SELECT 'held', count(*) FROM {prefix}_jobs WHERE held_at IS NOT NULL
UNION ALL SELECT 'waiting', count(*) FROM {prefix}_jobs WHERE waiting_on IS NOT NULL
UNION ALL SELECT status, count(*) FROM {prefix}_jobs WHERE finished_at IS NOT NULL GROUP BY status
