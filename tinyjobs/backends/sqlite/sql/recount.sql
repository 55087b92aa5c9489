-- For a table of tallies that was just made beside jobs that have ended before.
INSERT INTO {prefix}_tallies (minute, owner, queue, success, failed, cancelled)
SELECT 0, '', '', sum(status = 'success'), sum(status = 'failed'), sum(status = 'cancelled')
FROM {prefix}_jobs WHERE finished_at IS NOT NULL
GROUP BY finished_at IS NOT NULL
