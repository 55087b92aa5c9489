-- Found by the column that is set only while a job is held.
{part:looking}
    WHERE id IN (SELECT id FROM {prefix}_jobs WHERE held_at IS NOT NULL)
{part:looked}
