-- A stored next time stays unless the rule itself changed, so a restart goes on where the last process stopped. What had
-- stopped itself starts anew. A schedule that the code declares does not give way to one that is kept as data.
INSERT INTO {tables}_schedules AS kept (
    name, cron, timezone, next_run_at, task, payload, codec, queue, priority, misfire, overlap, source
)
VALUES (
    %s::text, %s::text, %s::text, %s::float8, %s::text, %s::bytea,
    %s::text, %s::text, %s::int, %s::text, %s::boolean, %s::text
)
ON CONFLICT (name) DO UPDATE SET
    next_run_at = CASE
        WHEN kept.cron = excluded.cron AND kept.timezone = excluded.timezone AND kept.error IS NULL
        THEN kept.next_run_at
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
WHERE kept.source = 'data' OR excluded.source = 'code'
