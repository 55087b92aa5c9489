-- An ended job that no job waits for.
job.id = %s AND job.finished_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM {prefix}_jobs AS child WHERE child.waiting_on = job.id)
