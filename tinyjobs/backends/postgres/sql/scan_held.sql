-- Found by the column that is set only while a job is held.
{part:looking}
    WHERE id IN (SELECT id FROM {tables}_jobs WHERE held_at IS NOT NULL)
{part:looked}
