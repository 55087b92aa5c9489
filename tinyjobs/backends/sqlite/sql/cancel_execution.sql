-- A cancelled running attempt stays in the history as cancelled; its worker's own outcome will be refused.
INSERT OR REPLACE INTO {prefix}_executions (job_id, claim, attempt, status, worker_id, started_at, finished_at)
SELECT id, claims, attempts, 'cancelled', worker_id, started_at, %s FROM {prefix}_jobs
WHERE id = %s AND lease_expires_at IS NOT NULL
