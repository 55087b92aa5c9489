-- Active jobs with a key that another one has as well: all of a key's but the oldest, and that one.
SELECT clash.dedup_key, clash.id, clash.first
FROM (
    SELECT dedup_key, id, min(id) OVER (PARTITION BY active_key) AS first
    FROM {tables}_jobs WHERE active_key IS NOT NULL
) AS clash
WHERE clash.id <> clash.first
ORDER BY clash.first, clash.id
LIMIT %s::int
