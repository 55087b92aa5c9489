SELECT count(*)
{part:purgeable}
