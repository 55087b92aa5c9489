-- Live jobs by their partial indexes, ended ones from what is kept of them.
SELECT 'queued', count(*) FROM {prefix}_jobs WHERE ready_at IS NOT NULL
UNION ALL SELECT 'queued', count(*) FROM {prefix}_jobs WHERE due_at IS NOT NULL
UNION ALL SELECT 'running', count(*) FROM {prefix}_jobs WHERE lease_expires_at IS NOT NULL
UNION ALL SELECT 'held', count(*) FROM {prefix}_jobs WHERE held_at IS NOT NULL
UNION ALL SELECT 'waiting', count(*) FROM {prefix}_jobs WHERE waiting_on IS NOT NULL
UNION ALL SELECT 'success', coalesce(sum(success), 0) FROM {prefix}_tallies
UNION ALL SELECT 'failed', coalesce(sum(failed), 0) FROM {prefix}_tallies
UNION ALL SELECT 'cancelled', coalesce(sum(cancelled), 0) FROM {prefix}_tallies
