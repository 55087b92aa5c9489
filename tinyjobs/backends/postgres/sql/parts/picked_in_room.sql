-- The same for a worker with little room for one kind of task: of the tasks in the room at most as many are taken as
-- there is room for, and the claim looks a bounded way past the others.
{part:served},
room AS MATERIALIZED (
    SELECT ARRAY(SELECT json_array_elements_text(%s::json)) AS tasks, %s::int AS ahead, %s::int AS free
),
heads AS MATERIALIZED (
    SELECT line.id, line.priority, line.ready_at, line.task = ANY (room.tasks) AS bounded
    FROM room, served CROSS JOIN LATERAL (
        SELECT id, priority, ready_at, task FROM {tables}_jobs
        WHERE queue = served.queue AND ready_at IS NOT NULL
        ORDER BY priority DESC, ready_at, id
        LIMIT room.ahead
    ) AS line
),
fitting AS MATERIALIZED (
    SELECT id, priority, ready_at FROM heads WHERE NOT bounded
    UNION ALL
    (
        SELECT id, priority, ready_at FROM heads WHERE bounded
        ORDER BY priority DESC, ready_at, id
        LIMIT (SELECT free FROM room)
    )
),
picked AS (
    SELECT job.id FROM fitting JOIN {tables}_jobs AS job ON job.id = fitting.id
    WHERE job.ready_at IS NOT NULL
    ORDER BY fitting.priority DESC, fitting.ready_at, fitting.id
    LIMIT (SELECT most FROM asked)
    FOR UPDATE OF job SKIP LOCKED
)
