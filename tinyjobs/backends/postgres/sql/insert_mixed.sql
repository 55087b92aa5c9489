-- Many jobs that differ in more than id and payload, in the order they are given. An unnest of several arrays
-- is the server's own, whatever the search path, and cannot be named with a schema.
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
    SELECT id, task, queue, status, priority, max_attempts, coalesce(present + delay, run_at) AS run_at, created_at,
        coalesce(present + expires_in, expires_at) AS expires_at, scheduled_for, key, codec, metadata, payload, present,
        place
    FROM (SELECT {part:now} AS present) AS clock
    CROSS JOIN unnest(
        %s::pg_catalog.text[], %s::pg_catalog.text[], %s::pg_catalog.text[], %s::pg_catalog.text[], %s::int[], %s::int[],
        %s::double precision[], %s::double precision[], %s::double precision[], %s::double precision[],
        %s::double precision[], %s::double precision[], %s::pg_catalog.text[], %s::pg_catalog.text[], %s::pg_catalog.text[],
        %s::pg_catalog.bytea[]
    ) WITH ORDINALITY AS row (
        id, task, queue, status, priority, max_attempts, delay, run_at, created_at, expires_in, expires_at,
        scheduled_for, key, codec, metadata, payload, place
    )
) AS given
ORDER BY given.place
ON CONFLICT (active_key) WHERE active_key IS NOT NULL DO NOTHING
