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
    SELECT %s::text AS task, %s::text AS queue, %s::text AS status, (%s)::int AS priority, %s::int AS max_attempts,
        coalesce(present + %s::float8, %s::float8) AS run_at, %s::float8 AS created_at,
        coalesce(present + %s::float8, %s::float8) AS expires_at, %s::float8 AS scheduled_for, %s::text AS codec,
        %s::text AS metadata, present
    FROM (SELECT {part:now} AS present) AS clock
) AS shared
CROSS JOIN unnest(%s::text[], %s::bytea[]) AS given (id, payload)
