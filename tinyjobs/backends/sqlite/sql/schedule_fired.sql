UPDATE {prefix}_schedules SET last_run_at = %s, last_job_id = %s WHERE name = %s
