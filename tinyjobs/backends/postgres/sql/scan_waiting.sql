-- Found by the column that is set only while a job waits for another.
{part:looking}
    WHERE id IN (SELECT id FROM {tables}_jobs WHERE waiting_on IS NOT NULL)
{part:looked}
