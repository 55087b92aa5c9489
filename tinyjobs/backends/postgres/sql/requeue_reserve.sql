-- A row of no job, for the length of a transaction: an insert can find a key held without an error, an update cannot.
INSERT INTO {tables}_jobs (id, task, queue, status, run_at, created_at, payload, active_key)
SELECT 'key of ' || id, task, queue, 'cancelled', run_at, created_at, '',
    encode(sha256(convert_to(dedup_key, 'UTF8')), 'hex')
FROM {tables}_jobs WHERE id = %s::text
ON CONFLICT (active_key) WHERE active_key IS NOT NULL DO NOTHING
