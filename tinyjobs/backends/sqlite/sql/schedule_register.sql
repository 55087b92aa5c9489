-- A stored next time stays unless the rule itself changed, so a restart goes on where the last process stopped.
INSERT INTO {prefix}_schedules (name, cron, timezone, next_run_at)
VALUES (%s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE SET
    next_run_at = CASE
        WHEN cron = excluded.cron AND timezone = excluded.timezone THEN next_run_at
        ELSE excluded.next_run_at
    END,
    cron = excluded.cron,
    timezone = excluded.timezone
