-- Ready and delayed jobs, each by its own column, so finished rows cost nothing. The page is chosen before its rows are
-- read: a planner without statistics would otherwise look at every live job once for each row.
WITH live AS MATERIALIZED (
    SELECT id, queue, task FROM {tables}_jobs WHERE ready_at IS NOT NULL
    UNION ALL
    SELECT id, queue, task FROM {tables}_jobs WHERE due_at IS NOT NULL
),
page AS MATERIALIZED (
    SELECT id FROM live
    WHERE true
    {part:page}
)
SELECT {listing} FROM {tables}_jobs
WHERE id = ANY (ARRAY(SELECT id FROM page))
ORDER BY id DESC
