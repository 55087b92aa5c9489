-- Successes that are alike but for job and time; fenced by the claim like every other outcome.
UPDATE {prefix}_jobs
SET status = 'success', finished_at = outcome.value, hand_backs = 0, active_key = NULL, lease_expires_at = NULL,
    last_error = NULL, result = %s
FROM json_each(%s) AS outcome
WHERE {prefix}_jobs.id = outcome.key AND {prefix}_jobs.claims = %s AND {prefix}_jobs.lease_expires_at IS NOT NULL
