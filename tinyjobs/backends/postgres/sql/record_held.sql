-- Which of these claims still hold, by their places, as one row; their rows are locked. One that somebody is writing
-- just now is passed over, since two who wait for each other's rows would wait for ever. It counts as held until its
-- lease has run out: whoever renews them takes one that is not named for lost, and for good.
WITH given AS MATERIALIZED (
    SELECT o ->> 0 AS id, (o ->> 1)::int AS claim, place - 1 AS place
    FROM json_array_elements(%s::json) WITH ORDINALITY AS held (o, place)
),
mine AS MATERIALIZED (
    SELECT given.place FROM given JOIN {tables}_jobs AS job ON job.id = given.id
    WHERE job.claims = given.claim AND job.lease_expires_at IS NOT NULL
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
busy AS (
    SELECT given.place FROM given JOIN {tables}_jobs AS job ON job.id = given.id
    WHERE job.claims = given.claim AND job.lease_expires_at > date_part('epoch', statement_timestamp())
)
SELECT coalesce(json_agg(place), '[]')::text FROM (SELECT place FROM mine UNION SELECT place FROM busy) AS holding
