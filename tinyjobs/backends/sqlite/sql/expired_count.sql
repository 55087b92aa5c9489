SELECT count(*) FROM {prefix}_jobs WHERE lease_expires_at IS NOT NULL AND lease_expires_at < %s
