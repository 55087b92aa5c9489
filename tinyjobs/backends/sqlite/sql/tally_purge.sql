-- Jobs that are deleted count no more. Owned by the first of them.
INSERT INTO {prefix}_tallies (minute, owner, queue, success, failed, cancelled)
SELECT CAST(%s / 60 AS INTEGER), %s, job.queue, -sum(job.status = 'success'), -sum(job.status = 'failed'),
    -sum(job.status = 'cancelled')
FROM json_each(%s) AS gone CROSS JOIN {prefix}_jobs AS job ON job.id = gone.value
GROUP BY job.queue
{part:added_up}
