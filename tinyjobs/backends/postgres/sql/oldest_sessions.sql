-- Who has been in a transaction for longest, which is what a build waits for.
SELECT pid, usename::text, application_name FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()
    AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)
ORDER BY xact_start NULLS LAST, pid
LIMIT 5
