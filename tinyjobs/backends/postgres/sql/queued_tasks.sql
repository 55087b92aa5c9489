SELECT task, count(*) FROM {tables}_jobs
WHERE id IN (
    SELECT id FROM {tables}_jobs WHERE ready_at IS NOT NULL
    UNION ALL
    SELECT id FROM {tables}_jobs WHERE due_at IS NOT NULL
    UNION ALL
    SELECT id FROM {tables}_jobs WHERE held_at IS NOT NULL
)
GROUP BY task
