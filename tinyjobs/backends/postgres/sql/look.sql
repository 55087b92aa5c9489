-- The order is the index's: without one a planner that expects a ready job soon may read the table for it.
SELECT (SELECT true FROM {tables}_jobs WHERE ready_at IS NOT NULL ORDER BY queue, priority DESC, ready_at, id LIMIT 1)
        IS NOT NULL,
    (SELECT due_at FROM {tables}_jobs WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    {part:now}
