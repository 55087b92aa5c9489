SELECT name, cron, timezone, next_run_at, last_run_at, last_job_id, task, payload, codec, queue, priority, misfire,
    overlap, source, error, skips
FROM {prefix}_schedules
ORDER BY name
