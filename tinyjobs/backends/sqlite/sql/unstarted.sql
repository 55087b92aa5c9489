-- Jobs that have not started by their expiry, the longest expired first.
SELECT id FROM {prefix}_jobs WHERE lapses_at IS NOT NULL AND lapses_at <= %s ORDER BY lapses_at, id LIMIT %s
