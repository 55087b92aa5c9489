-- A job that is put back has not ended any more, unless a key that another active job holds by now keeps it.
INSERT INTO {prefix}_tallies (minute, owner, queue, failed, cancelled)
SELECT CAST(%s / 60 AS INTEGER), job.id, job.queue, -(job.status = 'failed'), -(job.status = 'cancelled')
FROM {prefix}_jobs AS job
WHERE job.id = %s AND job.status IN ('failed', 'cancelled')
    AND NOT EXISTS (SELECT 1 FROM {prefix}_jobs AS holder WHERE holder.active_key = job.dedup_key)
{part:added_up}
