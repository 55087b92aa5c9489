SELECT task, count(*) FROM {prefix}_jobs
WHERE id IN (
    SELECT id FROM {prefix}_jobs WHERE ready_at IS NOT NULL
    UNION ALL
    SELECT id FROM {prefix}_jobs WHERE due_at IS NOT NULL
    UNION ALL
    SELECT id FROM {prefix}_jobs WHERE held_at IS NOT NULL
)
GROUP BY task
