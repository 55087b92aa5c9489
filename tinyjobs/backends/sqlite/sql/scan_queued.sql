-- Ready and delayed jobs, each by its own column.
{part:looking}
    WHERE id IN (
        SELECT id FROM {prefix}_jobs WHERE ready_at IS NOT NULL
        UNION ALL
        SELECT id FROM {prefix}_jobs WHERE due_at IS NOT NULL
    )
{part:looked}
