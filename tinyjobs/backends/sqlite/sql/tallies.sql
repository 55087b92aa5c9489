-- What ended from a minute on, summed over all who wrote it.
SELECT minute, max(minutes), queue, sum(succeeded), sum(unsuccessful), sum(ended_cancelled), sum(waited), sum(ran),
    max(longest_wait), max(longest_run)
FROM {prefix}_tallies
WHERE minute > 0 AND minute >= %s AND (minute + minutes) * 60 > %s
GROUP BY minute, queue
HAVING sum(succeeded) + sum(unsuccessful) + sum(ended_cancelled) > 0
ORDER BY minute, queue
