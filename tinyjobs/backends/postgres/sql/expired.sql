-- Rows that somebody is writing are left to the next pass: they end, or their lease is renewed.
SELECT {columns} FROM {tables}_jobs
WHERE status = 'running' AND lease_expires_at < {part:now}
ORDER BY id
LIMIT %s::int
FOR UPDATE SKIP LOCKED
