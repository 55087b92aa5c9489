-- One that somebody is claiming just now is left to its worker. The first of them owns what counts them.
WITH clock AS (SELECT {part:now} AS present),
late AS MATERIALIZED (
    SELECT id, queue FROM {tables}_jobs, clock
    WHERE id = ANY (ARRAY(SELECT pg_catalog.json_array_elements_text(%s::pg_catalog.json))) AND lapses_at <= present
    ORDER BY id
    FOR UPDATE OF {prefix}_jobs SKIP LOCKED
),
tallied AS (
    INSERT INTO {tables}_tallies AS tally (minute, owner, queue, cancelled, ended_cancelled)
    SELECT pg_catalog.floor((SELECT present FROM clock) / 60)::bigint, (SELECT pg_catalog.min(id) FROM late), queue,
        pg_catalog.count(*), pg_catalog.count(*)
    FROM late
    GROUP BY 1, 2, 3
    ORDER BY 1, 2, 3
    {part:added_up}
)
UPDATE {tables}_jobs
SET status = 'cancelled', finished_at = (SELECT present FROM clock), last_error = %s::pg_catalog.text, ready_at = NULL,
    due_at = NULL, held_at = NULL, lapses_at = NULL, waiting_on = NULL, active_key = NULL
WHERE id = ANY (ARRAY(SELECT id FROM late))
