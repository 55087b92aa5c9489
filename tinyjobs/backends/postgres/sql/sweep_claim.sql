-- Compare and swap: of all who want to begin a sweep, one does.
INSERT INTO {tables}_meta AS meta (key, value) VALUES ('last_purge_at', %s::text)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
WHERE abs(excluded.value::float8 - {part:swept_at}) >= %s::float8
