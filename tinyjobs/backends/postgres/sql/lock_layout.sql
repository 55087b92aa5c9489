-- One process at a time lays a store out; let go with the transaction.
SELECT pg_advisory_xact_lock(hashtextextended(%s::text, 0))
