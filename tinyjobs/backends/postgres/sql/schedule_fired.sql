UPDATE {tables}_schedules SET last_run_at = {part:now}, last_job_id = %s::text WHERE name = %s::text
