-- The present, and when the next delayed job comes due.
clock AS MATERIALIZED (
    SELECT {part:now} AS present,
        (SELECT due_at FROM {tables}_jobs WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1) AS due_at
)
