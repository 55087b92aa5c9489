-- The places of the outcomes that landed; null: all of them did.
(SELECT CASE WHEN count(*) < (SELECT count(*) FROM given) THEN coalesce(array_agg(place), '{}') END FROM ended)
