-- The rows were locked by the read before, so this waits for nobody.
UPDATE {tables}_jobs AS job
SET lease_expires_at = {part:now} + %s::float8
FROM (SELECT o ->> 0 AS id, (o ->> 1)::int AS claim FROM json_array_elements(%s::json) AS held (o)) AS held
WHERE job.id = held.id AND job.claims = held.claim AND job.lease_expires_at IS NOT NULL
