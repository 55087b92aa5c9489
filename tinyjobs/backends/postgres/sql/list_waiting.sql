-- Found by the column that is set only while a job is waiting.
SELECT {listing} FROM {tables}_jobs
WHERE id IN (SELECT id FROM {tables}_jobs WHERE waiting_on IS NOT NULL)
{part:page}
