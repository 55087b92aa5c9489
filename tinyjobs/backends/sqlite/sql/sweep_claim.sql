-- Compare and swap: of all who want to begin a sweep, one does.
INSERT INTO {prefix}_meta (key, value) VALUES ('last_purge_at', %s)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
WHERE abs(CAST(excluded.value AS REAL) - CAST({prefix}_meta.value AS REAL)) >= %s
