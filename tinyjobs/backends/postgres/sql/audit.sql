-- How this session and its server are set up. A setting that a server lacks is null.
SELECT
    pg_catalog.current_setting('synchronous_commit', true),
    (SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'synchronous_commit'),
    pg_catalog.current_setting('fsync', true),
    pg_catalog.current_setting('neon.timeline_id', true),
    pg_catalog.pg_is_in_recovery(),
    pg_catalog.current_setting('default_transaction_read_only', true)
