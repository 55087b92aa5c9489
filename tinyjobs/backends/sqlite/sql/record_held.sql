-- Which outcomes of the group may land: those whose job still runs under that very claim. Their places, as one row.
SELECT json_group_array(outcome.key)
FROM json_each(%s) AS outcome
CROSS JOIN {prefix}_jobs AS job ON job.id = json_extract(outcome.value, '$[0]')
WHERE job.claims = json_extract(outcome.value, '$[1]') AND job.lease_expires_at IS NOT NULL
