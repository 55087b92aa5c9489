-- Compare and swap: only the caller who read the time that stands there moves it on.
UPDATE {prefix}_schedules SET next_run_at = %s, error = %s WHERE name = %s AND next_run_at = %s
