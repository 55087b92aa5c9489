-- One queue, any status.
{part:looking}
    WHERE queue = %s
{part:looked}
