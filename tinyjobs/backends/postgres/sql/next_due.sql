SELECT
    EXISTS (SELECT 1 FROM {tables}_jobs WHERE ready_at IS NOT NULL),
    (SELECT min(due_at) FROM {tables}_jobs WHERE due_at IS NOT NULL)
