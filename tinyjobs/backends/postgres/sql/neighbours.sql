SELECT (SELECT min(id) FROM {tables}_jobs WHERE id > %s::text), (SELECT max(id) FROM {tables}_jobs WHERE id < %s::text)
