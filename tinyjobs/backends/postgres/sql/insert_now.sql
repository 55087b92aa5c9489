-- The common case, and the leanest statement for it: due at once, no key, no expiry. The server says when that is.
INSERT INTO {tables}_jobs (
    id, task, queue, status, priority, max_attempts, run_at, created_at, ready_at, codec, metadata, payload
)
VALUES (
    %s::pg_catalog.text, %s::pg_catalog.text, %s::pg_catalog.text, 'queued', (%s)::int, %s::int,
    pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()), %s::double precision,
    pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()), %s::pg_catalog.text, %s::pg_catalog.text,
    %s::pg_catalog.bytea
)
