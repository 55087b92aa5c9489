UPDATE {prefix}_jobs
SET lease_expires_at = %s + %s
WHERE lease_expires_at IS NOT NULL AND id IN (
    SELECT job.id FROM json_each(%s) AS held
    CROSS JOIN {prefix}_jobs AS job ON job.id = json_extract(held.value, '$[0]')
    WHERE job.claims = json_extract(held.value, '$[1]')
)
