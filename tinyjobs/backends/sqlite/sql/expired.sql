SELECT {columns} FROM {prefix}_jobs
WHERE lease_expires_at IS NOT NULL AND lease_expires_at < %s
ORDER BY lease_expires_at
LIMIT %s
