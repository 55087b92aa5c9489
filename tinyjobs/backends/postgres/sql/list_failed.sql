-- The second condition names the partial index.
SELECT {listing} FROM {tables}_jobs
WHERE status = 'failed' AND status IN ('failed', 'cancelled')
{part:page}
