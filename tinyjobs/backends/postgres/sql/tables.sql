-- The tables, indexes and views of the schema that holds the store.
SELECT class.relname FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE namespace.nspname = {schema} AND class.relkind IN ('r', 'p', 'v', 'i', 'I', 'm', 'f')
