DELETE FROM {tables}_schedules WHERE name = %s::text
