-- A row that cannot be read counts as a failed job, and no more as what it stood for, if it had ended.
INSERT INTO {prefix}_tallies (minute, owner, queue, success, failed, cancelled)
SELECT CAST(given.present / 60 AS INTEGER), CAST(job.id AS TEXT), CAST(job.queue AS TEXT),
    -(job.finished_at IS NOT NULL AND job.status = 'success'),
    1 - (job.finished_at IS NOT NULL AND job.status = 'failed'),
    -(job.finished_at IS NOT NULL AND job.status = 'cancelled')
FROM (SELECT %s AS id, %s AS present) AS given CROSS JOIN {prefix}_jobs AS job ON job.id = given.id
WHERE true
{part:added_up}
