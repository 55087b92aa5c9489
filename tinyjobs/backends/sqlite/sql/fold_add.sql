INSERT INTO {prefix}_tallies (
    minute, owner, queue, minutes, success, failed, cancelled, succeeded, unsuccessful, ended_cancelled, waited, ran,
    longest_wait, longest_run
)
SELECT place, '', line, max(CASE WHEN minute < hour THEN 15 ELSE minutes END), sum(success), sum(failed), sum(cancelled),
    sum(succeeded), sum(unsuccessful), sum(ended_cancelled), sum(waited), sum(ran), max(longest_wait), max(longest_run)
{part:folded}
GROUP BY place, line
{part:added_up}
