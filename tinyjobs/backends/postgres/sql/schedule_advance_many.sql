-- The same for many. A row that another scheduler is just moving is left to it.
WITH given AS (
    SELECT * FROM unnest(%s::text[], %s::float8[], %s::float8[], %s::text[]) AS row (name, expected, next_run_at, error)
),
mine AS MATERIALIZED (
    SELECT stored.name, given.next_run_at, given.error
    FROM given
    JOIN {tables}_schedules AS stored ON stored.name = given.name AND stored.next_run_at = given.expected
    ORDER BY stored.name
    FOR UPDATE OF stored SKIP LOCKED
)
UPDATE {tables}_schedules AS stored
SET next_run_at = mine.next_run_at, error = mine.error
FROM mine
WHERE stored.name = mine.name
RETURNING stored.name
