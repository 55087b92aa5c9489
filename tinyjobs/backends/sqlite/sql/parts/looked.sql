-- The end of a bounded look. One row at least, each with the last id looked at and the next one (null: there is none),
-- then the jobs that fit. A text is sought byte by byte, so no payload has to be readable; lower() knows ASCII alone.
        AND id < %s
    ORDER BY id DESC
    LIMIT %s
),
bound AS (
    SELECT CASE WHEN count(*) > %s THEN min(id) END AS next FROM looked
),
wanted (status, queue, task, text) AS (
    SELECT %s, %s, %s, %s
),
found AS (
    SELECT job.id
    FROM wanted CROSS JOIN looked CROSS JOIN {prefix}_jobs AS job ON job.id = looked.id
    WHERE (wanted.status IS NULL OR job.status = wanted.status)
        AND (wanted.queue IS NULL OR job.queue = wanted.queue)
        AND (wanted.task IS NULL OR job.task = wanted.task)
        AND (
            wanted.text IS NULL
            OR instr(CAST(lower(job.id) AS BLOB), wanted.text)
            OR instr(CAST(lower(job.task) AS BLOB), wanted.text)
            OR instr(CAST(lower(CAST(job.payload AS TEXT)) AS BLOB), wanted.text)
        )
    ORDER BY looked.id DESC
    LIMIT %s
)
SELECT (SELECT min(id) FROM looked WHERE id > (SELECT min(id) FROM looked)), bound.next, page.*
FROM bound LEFT JOIN (
    SELECT {listing} FROM {prefix}_jobs WHERE id IN (SELECT id FROM found)
) AS page ON true
ORDER BY page.id DESC
