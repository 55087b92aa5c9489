UPDATE {prefix}_jobs SET result = NULL
WHERE id IN (SELECT value FROM json_each(%s)) AND status = 'success' AND result IS NOT NULL
