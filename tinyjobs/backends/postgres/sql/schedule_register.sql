-- A stored next time stays unless the rule itself changed, so a restart goes on where the last process stopped.
INSERT INTO {tables}_schedules AS kept (name, cron, timezone, next_run_at)
VALUES (%s::text, %s::text, %s::text, %s::float8)
ON CONFLICT (name) DO UPDATE SET
    next_run_at = CASE
        WHEN kept.cron = excluded.cron AND kept.timezone = excluded.timezone THEN kept.next_run_at
        ELSE excluded.next_run_at
    END,
    cron = excluded.cron,
    timezone = excluded.timezone
