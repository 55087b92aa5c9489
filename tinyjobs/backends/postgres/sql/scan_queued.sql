-- Ready and delayed jobs, each by its own column.
{part:looking}
    WHERE id = ANY (ARRAY(
        SELECT id FROM {tables}_jobs WHERE ready_at IS NOT NULL
        UNION ALL
        SELECT id FROM {tables}_jobs WHERE due_at IS NOT NULL
    ))
{part:looked}
