DELETE FROM {prefix}_executions WHERE job_id IN (SELECT value FROM json_each(%s))
