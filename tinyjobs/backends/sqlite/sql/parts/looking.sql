-- A bounded look: as many rows in the order of the page as may be looked at, and one more to tell that there are others.
WITH looked AS (
    SELECT id FROM {prefix}_jobs
