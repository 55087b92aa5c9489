-- Found by the column that is set only while a job waits for another.
{part:looking}
    WHERE id IN (SELECT id FROM {prefix}_jobs WHERE waiting_on IS NOT NULL)
{part:looked}
