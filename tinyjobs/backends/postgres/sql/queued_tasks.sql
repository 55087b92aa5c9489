SELECT task, count(*) FROM (
    SELECT task FROM {tables}_jobs WHERE ready_at IS NOT NULL
    UNION ALL
    SELECT task FROM {tables}_jobs WHERE due_at IS NOT NULL
    UNION ALL
    SELECT task FROM {tables}_jobs WHERE held_at IS NOT NULL
) AS queued
GROUP BY task
