{part:take}
WHERE id IN (
{part:heads}
)
RETURNING {columns}
