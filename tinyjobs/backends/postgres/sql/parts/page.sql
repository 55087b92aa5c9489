-- The end of every listing: the page after an id, newest first, of one queue or task where one is named.
    AND id < %s::text
    AND (%s::text IS NULL OR queue = %s::text)
    AND (%s::text IS NULL OR task = %s::text)
ORDER BY id DESC
LIMIT %s::int
