-- Tallies that are to stand elsewhere, with where: those of a minute that is over by a while go to its common row, those
-- older than an hour to that of their quarter of an hour, those older than a day to the one that keeps nothing but counts.
FROM (
    SELECT *,
        CASE WHEN minute < present.day THEN 0 WHEN minute < present.hour THEN minute - minute %% 15 ELSE minute END
        AS place,
        CASE WHEN minute < present.day THEN '' ELSE queue END AS line
    FROM (SELECT %s - 1440 AS day, %s - 60 AS hour, %s - 3 AS settled) AS present
    CROSS JOIN {prefix}_tallies AS tally
    WHERE minute > 0 AND minute <= present.settled
)
WHERE (place <> minute OR owner <> '')
