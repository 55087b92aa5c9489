-- One process at a time builds a store's indexes. It is tried and never waited for: a statement that waits is itself
-- something a concurrent build waits for.
SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('{prefix} indexes in ' || {schema}, 0))
