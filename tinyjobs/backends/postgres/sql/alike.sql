-- Successes that are alike are recorded, in one statement.
WITH {part:clock},
{part:ended_alike}
SELECT {part:landed}, present, due_at FROM clock
