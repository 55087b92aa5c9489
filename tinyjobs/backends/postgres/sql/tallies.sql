-- What ended from a minute on, summed over all who wrote it.
SELECT minute, max(minutes), queue, sum(succeeded)::bigint, sum(unsuccessful)::bigint, sum(ended_cancelled)::bigint,
    sum(waited), sum(ran), max(longest_wait), max(longest_run)
FROM {tables}_tallies
WHERE minute > 0 AND minute >= %s::bigint AND (minute + minutes) * 60 > %s::float8
GROUP BY minute, queue
HAVING sum(succeeded) + sum(unsuccessful) + sum(ended_cancelled) > 0
ORDER BY minute, queue
