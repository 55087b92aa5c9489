-- Any job, newest first.
{part:looking}
    WHERE true
{part:looked}
