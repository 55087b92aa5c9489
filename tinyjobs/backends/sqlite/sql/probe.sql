-- Whether a table of jobs has our columns, and not those of an older package of the same name.
SELECT ready_at, active_key FROM {prefix}_jobs LIMIT 0
