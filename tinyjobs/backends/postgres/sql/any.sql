-- Outcomes of any kind are recorded, in one statement.
WITH {part:clock},
{part:ended_any}
SELECT {part:landed}, present, due_at FROM clock
