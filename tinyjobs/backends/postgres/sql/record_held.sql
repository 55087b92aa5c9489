-- Which of these claims still hold, by their places, as one row; their rows are locked. One that somebody is writing
-- just now is passed over: it ends there, and two who wait for each other's rows would wait for ever.
SELECT coalesce(json_agg(place), '[]')::text FROM (
    SELECT held.place - 1 AS place
    FROM json_array_elements(%s::json) WITH ORDINALITY AS held (o, place)
    JOIN {tables}_jobs AS job ON job.id = held.o ->> 0
    WHERE job.claims = (held.o ->> 1)::int AND job.lease_expires_at IS NOT NULL
    FOR NO KEY UPDATE OF job SKIP LOCKED
) AS holding
