SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended('{prefix} indexes in ' || {schema}, 0))
