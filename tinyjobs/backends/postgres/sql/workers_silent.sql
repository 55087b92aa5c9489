SELECT 1 FROM {tables}_workers WHERE seen_at <= {part:now} - %s::float8 LIMIT 1
