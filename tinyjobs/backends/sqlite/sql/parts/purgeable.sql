-- Jobs of one status that ended by then and that nobody needs any more: no job waits for them, no key is theirs.
FROM {prefix}_jobs AS job
WHERE job.status = %s AND job.finished_at IS NOT NULL AND job.finished_at <= %s AND job.active_key IS NULL
    AND NOT EXISTS (SELECT 1 FROM {prefix}_jobs AS child WHERE child.waiting_on = job.id)
