-- ON CONFLICT names the key's index alone, so any other clash is an error. A held key leaves the row out; the caller
-- then reads the holder. A delay counts from the server's clock; a time that was asked for stands as it is.
-- A number stands in parentheses where it may be negative: some drivers write values into the text, and there a cast
-- would come before the minus.
INSERT INTO {tables}_jobs (
    id, task, queue, status, priority, max_attempts, run_at, created_at, ready_at, due_at,
    expires_at, lapses_at, scheduled_for, dedup_key, active_key, codec, metadata, payload
)
SELECT
    given.id, given.task, given.queue, given.status, given.priority, given.max_attempts, given.run_at, given.created_at,
    CASE WHEN given.run_at <= given.present THEN given.run_at END,
    CASE WHEN given.run_at > given.present THEN given.run_at END,
    given.expires_at, given.expires_at, given.scheduled_for, given.key, {part:digest}, given.codec, given.metadata,
    given.payload
FROM (
    SELECT %s::pg_catalog.text AS id, %s::pg_catalog.text AS task, %s::pg_catalog.text AS queue,
        %s::pg_catalog.text AS status, (%s)::int AS priority, %s::int AS max_attempts,
        coalesce(present + %s::double precision, %s::double precision) AS run_at, %s::double precision AS created_at,
        coalesce(present + %s::double precision, %s::double precision) AS expires_at,
        %s::double precision AS scheduled_for, %s::pg_catalog.text AS key, %s::pg_catalog.text AS codec,
        %s::pg_catalog.text AS metadata, %s::pg_catalog.bytea AS payload, present
    FROM (SELECT {part:now} AS present) AS clock
) AS given
ON CONFLICT (active_key) WHERE active_key IS NOT NULL DO NOTHING
