-- A job that is deleted counts no more.
INSERT INTO {prefix}_tallies (minute, owner, queue, success, failed, cancelled)
SELECT CAST(%s / 60 AS INTEGER), job.id, job.queue, -(job.status = 'success'), -(job.status = 'failed'),
    -(job.status = 'cancelled')
FROM {prefix}_jobs AS job
WHERE {part:deletable}
{part:added_up}
