SELECT 1 FROM {prefix}_workers WHERE seen_at <= %s - %s LIMIT 1
