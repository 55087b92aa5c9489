DELETE FROM {tables}_workers WHERE seen_at <= {part:now} - %s::float8
