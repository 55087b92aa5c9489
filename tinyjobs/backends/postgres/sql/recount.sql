-- For a table of tallies that was just made beside jobs that have ended before.
INSERT INTO {tables}_tallies (minute, owner, queue, success, failed, cancelled)
SELECT 0, '', '', count(*) FILTER (WHERE status = 'success'), count(*) FILTER (WHERE status = 'failed'),
    count(*) FILTER (WHERE status = 'cancelled')
FROM {tables}_jobs WHERE finished_at IS NOT NULL
GROUP BY finished_at IS NOT NULL
