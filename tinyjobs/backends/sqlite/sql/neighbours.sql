SELECT (SELECT min(id) FROM {prefix}_jobs WHERE id > %s), (SELECT max(id) FROM {prefix}_jobs WHERE id < %s)
