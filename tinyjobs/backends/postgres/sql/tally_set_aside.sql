-- A row that cannot be read counts as a failed job, and no more as what it stood for, if it had ended. It is locked
-- first, so that nobody else writes the tallies it owns.
WITH before AS MATERIALIZED (
    SELECT id, queue, CASE WHEN finished_at IS NULL THEN '' ELSE status END AS stood FROM {tables}_jobs
    WHERE id = %s::text
    FOR UPDATE
)
INSERT INTO {tables}_tallies AS tally (minute, owner, queue, success, failed, cancelled)
SELECT floor({part:now} / 60)::bigint, id, queue, -(stood = 'success')::int, 1 - (stood = 'failed')::int,
    -(stood = 'cancelled')::int
FROM before
{part:added_up}
