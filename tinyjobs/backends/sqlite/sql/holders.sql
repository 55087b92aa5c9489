SELECT {columns} FROM {prefix}_jobs
WHERE active_key IN (SELECT value FROM json_each(%s))
