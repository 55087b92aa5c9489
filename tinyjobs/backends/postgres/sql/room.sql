-- The next jobs are claimed into a room. One row at least.
WITH RECURSIVE {part:clock},
{part:picked_in_room},
{part:taken}
SELECT NULL::bigint[], clock.present, clock.due_at, taken.* FROM clock LEFT JOIN taken ON true
