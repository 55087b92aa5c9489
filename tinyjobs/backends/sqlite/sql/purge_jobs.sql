DELETE FROM {prefix}_jobs WHERE id IN (SELECT value FROM json_each(%s))
