{part:take}
WHERE id IN (
{part:heads_in_room}
)
RETURNING {columns}
