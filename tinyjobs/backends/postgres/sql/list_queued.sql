-- Ready and delayed jobs, each by its own column, so finished rows cost nothing.
SELECT {listing} FROM {tables}_jobs
WHERE id IN (
        SELECT id FROM {tables}_jobs WHERE ready_at IS NOT NULL
        UNION ALL
        SELECT id FROM {tables}_jobs WHERE due_at IS NOT NULL
    )
{part:page}
