-- Found by an index of running jobs alone.
{part:looking}
    WHERE id IN (SELECT id FROM {prefix}_jobs WHERE lease_expires_at IS NOT NULL)
{part:looked}
