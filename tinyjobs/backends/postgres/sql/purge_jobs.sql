-- The rows were locked by the read before, so this waits for nobody. They count no more; the first of them owns what says
-- so.
WITH gone AS MATERIALIZED (
    SELECT id, queue, status FROM {tables}_jobs WHERE id = ANY (ARRAY(SELECT json_array_elements_text(%s::json)))
),
tallied AS (
    INSERT INTO {tables}_tallies AS tally (minute, owner, queue, success, failed, cancelled)
    SELECT floor({part:now} / 60)::bigint, (SELECT min(id) FROM gone), queue, -count(*) FILTER (WHERE status = 'success'),
        -count(*) FILTER (WHERE status = 'failed'), -count(*) FILTER (WHERE status = 'cancelled')
    FROM gone
    GROUP BY 1, 2, 3
    ORDER BY 1, 2, 3
    {part:added_up}
)
DELETE FROM {tables}_jobs WHERE id = ANY (ARRAY(SELECT id FROM gone))
