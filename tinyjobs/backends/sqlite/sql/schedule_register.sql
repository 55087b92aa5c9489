-- A stored next time stays unless the rule itself changed, so a restart goes on where the last process stopped. What had
-- stopped itself starts anew. A schedule that the code declares does not give way to one that is kept as data.
INSERT INTO {prefix}_schedules (
    name, cron, timezone, next_run_at, task, payload, codec, queue, priority, misfire, overlap, source
)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE SET
    next_run_at = CASE
        WHEN cron = excluded.cron AND timezone = excluded.timezone AND error IS NULL
        THEN next_run_at
        ELSE excluded.next_run_at
    END,
    cron = excluded.cron,
    timezone = excluded.timezone,
    task = excluded.task,
    payload = excluded.payload,
    codec = excluded.codec,
    queue = excluded.queue,
    priority = excluded.priority,
    misfire = excluded.misfire,
    overlap = excluded.overlap,
    source = excluded.source,
    error = NULL
WHERE source = 'data' OR excluded.source = 'code'
