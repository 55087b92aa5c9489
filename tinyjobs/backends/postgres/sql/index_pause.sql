-- The wait between two tries, the same for callers that suspend and those that do not. Nothing of it can hang.
SELECT pg_catalog.pg_sleep(%s::float8)
