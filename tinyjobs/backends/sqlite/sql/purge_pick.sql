SELECT job.id
{part:purgeable}
ORDER BY job.finished_at
LIMIT %s
