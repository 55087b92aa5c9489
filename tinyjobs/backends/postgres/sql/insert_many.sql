-- Many jobs that have everything in common but id and payload. What they share is given once.
INSERT INTO {tables}_jobs (
    id, task, queue, status, priority, max_attempts, run_at, created_at, ready_at, due_at,
    expires_at, lapses_at, scheduled_for, codec, metadata, payload
)
SELECT
    given.id, shared.task, shared.queue, shared.status, shared.priority, shared.max_attempts, shared.run_at,
    shared.created_at, CASE WHEN shared.run_at <= shared.present THEN shared.run_at END,
    CASE WHEN shared.run_at > shared.present THEN shared.run_at END,
    shared.expires_at, shared.expires_at, shared.scheduled_for, shared.codec, shared.metadata, given.payload
FROM (
    SELECT %s::pg_catalog.text AS task, %s::pg_catalog.text AS queue, %s::pg_catalog.text AS status,
        (%s)::int AS priority, %s::int AS max_attempts,
        coalesce(present + %s::double precision, %s::double precision) AS run_at, %s::double precision AS created_at,
        coalesce(present + %s::double precision, %s::double precision) AS expires_at,
        %s::double precision AS scheduled_for, %s::pg_catalog.text AS codec, %s::pg_catalog.text AS metadata, present
    FROM (SELECT {part:now} AS present) AS clock
) AS shared
CROSS JOIN unnest(%s::pg_catalog.text[], %s::pg_catalog.bytea[]) AS given (id, payload)
