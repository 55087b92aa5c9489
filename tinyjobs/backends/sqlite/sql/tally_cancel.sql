-- Nobody else writes the rows of this owner, since the job's own row is locked by the same transaction.
INSERT INTO {prefix}_tallies (minute, owner, queue, cancelled, ended_cancelled)
SELECT CAST(%s / 60 AS INTEGER), id, queue, 1, 1 FROM {prefix}_jobs WHERE id = %s AND finished_at IS NULL
{part:added_up}
