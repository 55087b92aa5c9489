-- The second condition names the partial index.
{part:looking}
    WHERE status = 'failed' AND status IN ('failed', 'cancelled')
{part:looked}
