-- The same for a worker with little room for one kind of task: of the tasks in the room at most as many are taken as
-- there is room for. Where these crowd the heads, the claim looks a bounded way past them for others.
{part:ours},
room AS MATERIALIZED (
    SELECT ARRAY(SELECT json_array_elements_text(%s::json)) AS tasks, %s::int AS ahead, %s::int AS free
),
locked AS MATERIALIZED (
    SELECT ours.id, ours.priority, ours.ready_at, ours.task = ANY (room.tasks) AS bounded FROM room, ours
),
fitting AS MATERIALIZED (
    SELECT id FROM locked WHERE NOT bounded
    UNION ALL
    (
        SELECT id FROM locked WHERE bounded
        ORDER BY priority DESC, ready_at, id
        LIMIT (SELECT free FROM room)
    )
),
crowd AS MATERIALIZED (
    SELECT (SELECT count(*) FROM locked) - (SELECT count(*) FROM fitting) AS excess
),
farther AS MATERIALIZED (
    SELECT line.id FROM room, crowd, served CROSS JOIN LATERAL (
        SELECT id, priority, ready_at, task FROM {tables}_jobs
        WHERE queue = served.queue AND ready_at IS NOT NULL
        ORDER BY priority DESC, ready_at, id
        LIMIT CASE WHEN crowd.excess > 0 THEN room.ahead ELSE 0 END
    ) AS line
    WHERE line.task <> ALL (room.tasks) AND line.id <> ALL (ARRAY(SELECT id FROM locked))
    ORDER BY line.priority DESC, line.ready_at, line.id
    LIMIT (SELECT excess FROM crowd)
),
picked AS (
    SELECT id FROM fitting
    UNION ALL
    SELECT id FROM (
        SELECT id FROM {tables}_jobs
        WHERE id = ANY (ARRAY(SELECT id FROM farther)) AND ready_at IS NOT NULL
        FOR UPDATE SKIP LOCKED
    ) AS later
)
