-- Found by the column that is set only while a job waits for another. The subquery keeps the planner from walking the
-- whole table in the order of the page instead, which it prefers until ANALYZE has run.
SELECT {listing} FROM {prefix}_jobs
WHERE id IN (SELECT id FROM {prefix}_jobs WHERE waiting_on IS NOT NULL)
{part:page}
