-- The second condition names the partial index.
{part:looking}
    WHERE status = 'cancelled' AND status IN ('failed', 'cancelled')
{part:looked}
