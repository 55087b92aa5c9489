SELECT EXISTS (SELECT 1 FROM {tables}_jobs WHERE ready_at IS NOT NULL),
    (SELECT due_at FROM {tables}_jobs WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    {part:now}
