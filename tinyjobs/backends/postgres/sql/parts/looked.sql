-- The end of a bounded look. One row at least, each with the last id looked at and the next one (null: there is none),
-- then the jobs that fit. A text is sought byte by byte, so no payload has to be readable: each byte is taken for a
-- character, but for zeros, which no text can have. In the collation C, lower() knows ASCII alone.
        AND id < %s::text
    ORDER BY id DESC
    LIMIT %s::bigint
),
bound AS (
    SELECT CASE WHEN count(*) > %s::bigint THEN min(id) END AS next FROM looked
),
wanted AS (
    SELECT %s::text AS status, %s::text AS queue, %s::text AS task, %s::bytea AS text
),
found AS MATERIALIZED (
    SELECT looked.id
    FROM looked, wanted
    WHERE (wanted.status IS NULL OR looked.status = wanted.status)
        AND (wanted.queue IS NULL OR looked.queue = wanted.queue)
        AND (wanted.task IS NULL OR looked.task = wanted.task)
        AND (
            wanted.text IS NULL
            OR strpos(lower(looked.id COLLATE "C"), convert_from(wanted.text, 'UTF8')) > 0
            OR strpos(lower(looked.task COLLATE "C"), convert_from(wanted.text, 'UTF8')) > 0
            OR strpos(
                lower(convert_from(
                    CASE WHEN position('\x00'::bytea IN looked.payload) = 0 THEN looked.payload
                    ELSE decode(replace(encode(looked.payload, 'escape'), '\000', '\001'), 'escape') END, 'LATIN1'
                ) COLLATE "C"),
                convert_from(wanted.text, 'LATIN1')
            ) > 0
        )
    ORDER BY looked.id DESC
    LIMIT %s::bigint
)
SELECT (SELECT min(id) FROM looked WHERE id > (SELECT min(id) FROM looked)), bound.next, page.*
FROM bound LEFT JOIN (
    SELECT {listing} FROM {tables}_jobs WHERE id = ANY (ARRAY(SELECT id FROM found))
) AS page ON true
ORDER BY page.id DESC
