UPDATE {prefix}_schedules SET skips = skips + %s WHERE name = %s
