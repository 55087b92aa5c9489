-- Which database this is, whether its server may be asked for its number, and whether the store's meta table is there.
SELECT pg_catalog.current_database()::pg_catalog.text, database.oid::bigint,
    pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE'),
    EXISTS (
        SELECT 1 FROM pg_catalog.pg_class AS class
        JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
        WHERE namespace.nspname = {schema} AND class.relname = %s::pg_catalog.text
    )
FROM pg_catalog.pg_database AS database WHERE database.datname = pg_catalog.current_database()
