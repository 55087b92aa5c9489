-- Found by an index of running jobs alone.
{part:looking}
    WHERE status = 'running'
{part:looked}
