-- An ended job that no job waits for, locked.
SELECT job.id FROM {tables}_jobs AS job
WHERE job.id = %s::text AND job.finished_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM {tables}_jobs AS child WHERE child.waiting_on = job.id)
FOR UPDATE OF job
