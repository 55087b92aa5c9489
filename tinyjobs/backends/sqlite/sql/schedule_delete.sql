DELETE FROM {prefix}_schedules WHERE name = %s
