SELECT
    EXISTS (
        SELECT 1 FROM json_each(%s) AS wanted
        CROSS JOIN {prefix}_jobs AS job ON job.queue = wanted.value
        WHERE job.ready_at IS NOT NULL
    ),
    (SELECT min(due_at) FROM {prefix}_jobs WHERE due_at IS NOT NULL)
