SELECT count(*) FROM {tables}_jobs WHERE status = 'running' AND lease_expires_at < {part:now}
