-- The common case, and the leanest statement for it: due at once, no key, no expiry. The server says when that is.
INSERT INTO {tables}_jobs (
    id, task, queue, status, priority, max_attempts, run_at, created_at, ready_at, codec, metadata, payload
)
VALUES (
    %s::text, %s::text, %s::text, 'queued', (%s)::int, %s::int, date_part('epoch', statement_timestamp()),
    %s::float8, date_part('epoch', statement_timestamp()), %s::text, %s::text, %s::bytea
)
