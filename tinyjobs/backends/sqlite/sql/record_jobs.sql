-- Every kind of outcome at once; fenced by the claim, so one that came too late changes nothing. A job of which every
-- claim was handed back has not started yet, and so may still expire.
UPDATE {prefix}_jobs
SET status = o.status,
    attempts = o.attempts,
    hand_backs = o.hand_backs,
    run_at = o.run_at,
    ready_at = CASE WHEN o.status = 'queued' AND o.run_at <= %s THEN o.run_at END,
    due_at = CASE WHEN o.status = 'queued' AND o.run_at > %s THEN o.run_at END,
    lapses_at = CASE WHEN o.status = 'queued' AND o.hand_backs = {prefix}_jobs.claims THEN {prefix}_jobs.expires_at END,
    finished_at = o.finished_at,
    started_at = CASE WHEN o.status IN ('queued', 'cancelled') THEN NULL ELSE {prefix}_jobs.started_at END,
    worker_id = CASE WHEN o.status = 'queued' THEN NULL ELSE {prefix}_jobs.worker_id END,
    active_key = CASE WHEN o.status = 'queued' THEN {prefix}_jobs.active_key END,
    lease_expires_at = NULL,
    result = CAST(o.result AS BLOB),
    last_error = o.last_error
FROM (
    SELECT
        json_extract(value, '$[0]') AS id,
        json_extract(value, '$[1]') AS claim,
        json_extract(value, '$[2]') AS status,
        json_extract(value, '$[3]') AS attempts,
        json_extract(value, '$[4]') AS hand_backs,
        json_extract(value, '$[5]') AS run_at,
        json_extract(value, '$[6]') AS finished_at,
        json_extract(value, '$[7]') AS result,
        json_extract(value, '$[8]') AS last_error
    FROM json_each(%s)
) AS o
WHERE {prefix}_jobs.id = o.id AND {prefix}_jobs.claims = o.claim AND {prefix}_jobs.lease_expires_at IS NOT NULL
