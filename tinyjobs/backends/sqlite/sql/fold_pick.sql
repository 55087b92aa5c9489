SELECT 1
{part:folded}
LIMIT 1
