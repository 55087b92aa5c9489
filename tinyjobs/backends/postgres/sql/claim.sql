-- The next jobs are claimed. One row at least.
WITH RECURSIVE {part:clock},
{part:picked},
{part:taken}
SELECT NULL::bigint[], clock.present, clock.due_at, taken.* FROM clock LEFT JOIN taken ON true
