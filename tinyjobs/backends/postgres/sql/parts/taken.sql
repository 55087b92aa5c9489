-- What a claim does to a job: the next attempt begins, under a new claim and a lease.
taken AS (
    UPDATE {tables}_jobs
    SET status = 'running', attempts = attempts + 1, claims = claims + 1, worker_id = lease.holder,
        started_at = clock.present, lease_expires_at = clock.present + lease.seconds, ready_at = NULL,
        lapses_at = NULL
    FROM clock, (SELECT %s::text AS holder, %s::float8 AS seconds) AS lease
    WHERE id = ANY (ARRAY(SELECT id FROM picked))
    RETURNING {columns}
)
