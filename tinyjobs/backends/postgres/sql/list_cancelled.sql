-- The second condition names the partial index.
SELECT {listing} FROM {tables}_jobs
WHERE status = 'cancelled' AND status IN ('failed', 'cancelled')
{part:page}
