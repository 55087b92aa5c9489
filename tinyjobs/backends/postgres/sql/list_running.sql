SELECT {listing} FROM {tables}_jobs
WHERE status = 'running'
{part:page}
