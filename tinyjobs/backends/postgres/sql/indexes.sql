-- What stands in the schema under the names of our tables and indexes, and every index of our tables.
SELECT class.relname::text, class.relkind::text, owner.relname::text,
    index.indisvalid AND index.indisready AND index.indislive, index.indisunique, index.indisprimary,
    (
        SELECT pg_catalog.string_agg(attribute.attname::text, ', ' ORDER BY key.place)
        FROM pg_catalog.unnest(index.indkey::int2[]) WITH ORDINALITY AS key (number, place)
        JOIN pg_catalog.pg_attribute AS attribute
            ON attribute.attrelid = index.indrelid AND attribute.attnum = key.number
        WHERE key.place <= index.indnkeyatts
    )
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
LEFT JOIN pg_catalog.pg_index AS index ON index.indexrelid = class.oid
LEFT JOIN pg_catalog.pg_class AS owner ON owner.oid = index.indrelid
WHERE namespace.nspname = {schema} AND (class.relname = ANY (%s::text[]) OR owner.relname = ANY (%s::text[]))
