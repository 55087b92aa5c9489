-- The queues a claim serves: those it was asked for, or, without a list, every queue that has ready jobs, found by
-- skipping through the ready index, which alone has that order. None while delayed jobs are due: those have to be let
-- in before a claim is fair.
asked AS MATERIALIZED (
    SELECT %s::json AS queues, %s::int AS most, clock.due_at <= clock.present AND NOT %s::boolean AS is_waiting FROM clock
),
found (queue) AS (
    (
        SELECT line.queue FROM asked CROSS JOIN LATERAL (
            SELECT queue FROM {tables}_jobs WHERE ready_at IS NOT NULL
            ORDER BY queue, priority DESC, ready_at, id LIMIT 1
        ) AS line
        WHERE asked.queues IS NULL AND is_waiting IS NOT TRUE
    )
    UNION ALL
    SELECT ahead.queue FROM found CROSS JOIN LATERAL (
        SELECT queue FROM {tables}_jobs WHERE ready_at IS NOT NULL AND queue > found.queue
        ORDER BY queue, priority DESC, ready_at, id LIMIT 1
    ) AS ahead
),
served AS MATERIALIZED (
    SELECT json_array_elements_text(asked.queues) AS queue FROM asked WHERE is_waiting IS NOT TRUE
    UNION
    SELECT queue FROM found
)
