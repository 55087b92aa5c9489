-- Jobs that have not started by their expiry, the longest expired first. One that is being claimed is left to its
-- worker.
SELECT id FROM {tables}_jobs
WHERE lapses_at IS NOT NULL AND lapses_at <= {part:now}
ORDER BY lapses_at, id
LIMIT %s::int
FOR UPDATE SKIP LOCKED
