-- Schedules: a hash for each, and a sorted set of their names.
local SCHEDULE = {
    'name', 'cron', 'timezone', 'next_run_at', 'last_run_at', 'last_job_id', 'task', 'codec', 'queue', 'priority',
    'misfire', 'overlap', 'source', 'error', 'skips',
}
-- What a declaration says, and so changes.
local DECLARED = { 'cron', 'timezone', 'task', 'codec', 'queue', 'priority', 'misfire', 'overlap', 'source' }
