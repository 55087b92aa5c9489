-- Jobs that are ended since they have not started in time. Owned by the first of them.
INSERT INTO {prefix}_tallies (minute, owner, queue, cancelled, ended_cancelled)
SELECT CAST(%s / 60 AS INTEGER), %s, job.queue, count(*), count(*)
FROM json_each(%s) AS late CROSS JOIN {prefix}_jobs AS job ON job.id = late.value
WHERE job.lapses_at <= %s
GROUP BY job.queue
{part:added_up}
