-- Whether the file holds the unprefixed tables of the older public package of this name, told by their columns: an
-- application may well have tables named jobs, meta and executions of its own.
SELECT
    (SELECT count(*) FROM pragma_table_info('meta') WHERE name IN ('key', 'value')) = 2
    AND (SELECT count(*) FROM pragma_table_info('executions') WHERE name IN ('job_id', 'attempt', 'worker_id')) = 3
    AND (
        SELECT count(*) FROM pragma_table_info('jobs')
        WHERE name IN ('task', 'payload', 'codec', 'max_attempts', 'lease_expires_at', 'worker_id', 'dedup_key')
    ) = 7
