-- One queue, any status.
{part:looking}
    WHERE queue = %s::text
{part:looked}
