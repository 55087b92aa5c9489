SELECT name, cron, timezone, next_run_at, last_run_at, last_job_id FROM {tables}_schedules ORDER BY name
