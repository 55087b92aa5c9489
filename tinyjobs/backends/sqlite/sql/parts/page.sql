-- The end of every listing: the page after an id, newest first, of one queue or task where one is named.
    AND id < %s
    AND (%s IS NULL OR queue = %s)
    AND (%s IS NULL OR task = %s)
ORDER BY id DESC
LIMIT %s
