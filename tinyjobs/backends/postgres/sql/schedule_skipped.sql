UPDATE {tables}_schedules SET skips = skips + %s::int WHERE name = %s::text
