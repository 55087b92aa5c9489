-- The order is the index's: without one a planner that expects a ready job soon may read the table for it.
SELECT EXISTS (
        SELECT 1 FROM json_array_elements_text(%s::json) AS wanted (queue) CROSS JOIN LATERAL (
            SELECT 1 FROM {tables}_jobs AS job WHERE job.queue = wanted.queue AND job.ready_at IS NOT NULL
            ORDER BY job.priority DESC, job.ready_at, job.id LIMIT 1
        ) AS line
    ),
    (SELECT due_at FROM {tables}_jobs WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    {part:now}
