-- A build is waited for as long as it takes, a lock that it needs for so many milliseconds and no longer. Only what the
-- server knows is set.
SELECT pg_catalog.set_config(
    name, CASE name WHEN 'lock_timeout' THEN %s::text ELSE '0' END, false
)
FROM pg_catalog.pg_settings
WHERE name IN (
    'lock_timeout', 'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout'
)
