-- The end of every write of tallies: what stands there already grows by what is given.
ON CONFLICT (minute, owner, queue) DO UPDATE SET
    minutes = max(minutes, excluded.minutes), success = success + excluded.success, failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled, succeeded = succeeded + excluded.succeeded,
    unsuccessful = unsuccessful + excluded.unsuccessful, ended_cancelled = ended_cancelled + excluded.ended_cancelled,
    waited = waited + excluded.waited, ran = ran + excluded.ran,
    longest_wait = max(longest_wait, excluded.longest_wait), longest_run = max(longest_run, excluded.longest_run)
