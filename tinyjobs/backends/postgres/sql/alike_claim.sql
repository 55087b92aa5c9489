-- Successes that are alike are recorded and the next jobs are claimed, in one statement. One row at least.
WITH RECURSIVE {part:clock},
{part:ended_alike},
{part:picked},
{part:taken}
SELECT {part:landed}, clock.present, clock.due_at, taken.* FROM clock LEFT JOIN taken ON true
