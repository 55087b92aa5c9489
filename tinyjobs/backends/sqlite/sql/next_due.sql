SELECT
    EXISTS (SELECT 1 FROM {prefix}_jobs WHERE ready_at IS NOT NULL),
    (SELECT min(due_at) FROM {prefix}_jobs WHERE due_at IS NOT NULL)
