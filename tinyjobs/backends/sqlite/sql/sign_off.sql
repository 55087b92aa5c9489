DELETE FROM {prefix}_workers WHERE worker_id = %s
