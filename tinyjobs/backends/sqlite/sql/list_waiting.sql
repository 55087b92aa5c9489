-- Found by the column that is set only while a job waits for another.
SELECT {listing} FROM {prefix}_jobs
WHERE waiting_on IS NOT NULL
    AND id < %s
    AND (%s IS NULL OR queue = %s)
    AND (%s IS NULL OR task = %s)
ORDER BY id DESC
LIMIT %s
