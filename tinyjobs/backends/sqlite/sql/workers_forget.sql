DELETE FROM {prefix}_workers WHERE seen_at <= %s - %s
