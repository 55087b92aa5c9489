DELETE FROM {tables}_workers WHERE worker_id = %s::text
