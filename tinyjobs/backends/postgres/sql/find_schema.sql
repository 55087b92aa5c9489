-- The first schema along the search path with a store of that prefix, or else the one where tables would be made.
SELECT coalesce(
    (
        SELECT namespace.nspname::text
        FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS path (name, place)
        JOIN pg_catalog.pg_namespace AS namespace ON namespace.nspname = path.name
        JOIN pg_catalog.pg_class AS class ON class.relnamespace = namespace.oid
        WHERE class.relname = %s::text AND class.relkind IN ('r', 'p')
        ORDER BY path.place LIMIT 1
    ),
    pg_catalog.current_schema()::text
)
