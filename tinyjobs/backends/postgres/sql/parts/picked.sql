{part:ours},
picked AS (
    SELECT id FROM ours
)
