-- Rows that somebody else is writing are passed over: they end, or the next heartbeat renews them, and two who wait for
-- each other's rows would wait for ever.
UPDATE {tables}_jobs
SET lease_expires_at = {part:now} + %s::float8
WHERE id = ANY (ARRAY(
    SELECT job.id
    FROM json_array_elements(%s::json) AS held (o)
    JOIN {tables}_jobs AS job ON job.id = held.o ->> 0
    WHERE job.claims = (held.o ->> 1)::int AND job.lease_expires_at IS NOT NULL
    FOR NO KEY UPDATE OF job SKIP LOCKED
))
