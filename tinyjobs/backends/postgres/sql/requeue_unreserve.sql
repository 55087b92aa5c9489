-- Until the transaction ends, everybody else who wants the key waits all the same.
DELETE FROM {tables}_jobs WHERE id = 'key of ' || %s::text
