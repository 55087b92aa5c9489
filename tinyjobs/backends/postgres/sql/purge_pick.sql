-- Rows that somebody else is writing are left to the next batch: another purge deletes them, or they are queued again.
SELECT job.id
{part:purgeable}
ORDER BY job.finished_at
LIMIT %s::int
FOR UPDATE OF job SKIP LOCKED
