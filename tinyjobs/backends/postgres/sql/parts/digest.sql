-- What the index of keys holds of a key.
pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(given.key, 'UTF8')), 'hex')
