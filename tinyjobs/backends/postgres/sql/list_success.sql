-- Nearly every row of a store that has run for a while, so the walk along the primary key ends soon.
SELECT {listing} FROM {tables}_jobs
WHERE status = 'success'
{part:page}
