-- The end of every write of tallies: what stands there already grows by what is given. Rows come in the order of the
-- key, so that no two writers wait for each other.
ON CONFLICT (minute, owner, queue) DO UPDATE SET
    minutes = greatest(tally.minutes, excluded.minutes), success = tally.success + excluded.success,
    failed = tally.failed + excluded.failed, cancelled = tally.cancelled + excluded.cancelled,
    succeeded = tally.succeeded + excluded.succeeded, unsuccessful = tally.unsuccessful + excluded.unsuccessful,
    ended_cancelled = tally.ended_cancelled + excluded.ended_cancelled, waited = tally.waited + excluded.waited,
    ran = tally.ran + excluded.ran, longest_wait = greatest(tally.longest_wait, excluded.longest_wait),
    longest_run = greatest(tally.longest_run, excluded.longest_run)
