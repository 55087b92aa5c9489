-- Newest first: ids sort by the time they were made, so the primary key is the order.
SELECT {listing} FROM {tables}_jobs
WHERE true
{part:page}
