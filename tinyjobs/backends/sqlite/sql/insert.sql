-- A key that an active job holds leaves the row out; the caller then reads the holder. The first statement is a
-- write, so a transaction that begins with an enqueue never has to turn a read lock into a write lock.
INSERT INTO {prefix}_jobs (
    id, task, queue, status, priority, max_attempts, run_at, created_at, ready_at, due_at,
    expires_at, lapses_at, scheduled_for, dedup_key, active_key, codec, metadata, payload
)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (active_key) WHERE active_key IS NOT NULL DO NOTHING
