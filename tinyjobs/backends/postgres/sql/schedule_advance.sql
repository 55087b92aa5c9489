-- Compare and swap: only the caller who read the time that stands there moves it on.
UPDATE {tables}_schedules SET next_run_at = %s::float8, error = %s::text WHERE name = %s::text AND next_run_at = %s::float8
