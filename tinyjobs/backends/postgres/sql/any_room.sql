-- Outcomes of any kind are recorded and the next jobs are claimed into a room, in one statement. One row at least.
WITH RECURSIVE {part:clock},
{part:ended_any},
{part:picked_in_room},
{part:taken}
SELECT {part:landed}, clock.present, clock.due_at, taken.* FROM clock LEFT JOIN taken ON true
