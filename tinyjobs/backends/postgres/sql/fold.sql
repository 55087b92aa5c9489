-- Tallies that are to stand elsewhere: those of a minute that is over by a while go to its common row, those older than
-- an hour to that of their quarter of an hour, those older than a day to the one that keeps nothing but counts. Rows that
-- somebody is writing are left to the next time.
WITH present AS (
    SELECT given.minute - 1440 AS day, given.minute - 60 AS hour, given.minute - 3 AS settled
    FROM (SELECT floor({part:now} / 60)::bigint AS minute) AS given
),
placed AS (
    SELECT tally.*,
        CASE WHEN minute < day THEN 0 WHEN minute < hour THEN minute - minute %% 15 ELSE minute END AS place,
        CASE WHEN minute < day THEN '' ELSE queue END AS line,
        CASE WHEN minute < hour THEN 15 ELSE minutes END AS span
    FROM present CROSS JOIN {tables}_tallies AS tally
    WHERE minute > 0 AND minute <= settled
),
old AS MATERIALIZED (
    SELECT tally.*, placed.place, placed.line, placed.span
    FROM placed JOIN {tables}_tallies AS tally USING (minute, owner, queue)
    WHERE placed.place <> tally.minute OR tally.owner <> ''
    ORDER BY tally.minute, tally.owner, tally.queue
    FOR UPDATE OF tally SKIP LOCKED
),
gone AS (
    DELETE FROM {tables}_tallies AS tally USING old
    WHERE tally.minute = old.minute AND tally.owner = old.owner AND tally.queue = old.queue
)
INSERT INTO {tables}_tallies AS tally (
    minute, owner, queue, minutes, success, failed, cancelled, succeeded, unsuccessful, ended_cancelled, waited, ran,
    longest_wait, longest_run
)
SELECT place, '', line, max(span), sum(success), sum(failed), sum(cancelled), sum(succeeded), sum(unsuccessful),
    sum(ended_cancelled), sum(waited), sum(ran), max(longest_wait), max(longest_run)
FROM old
GROUP BY place, line
ORDER BY place, line
{part:added_up}
