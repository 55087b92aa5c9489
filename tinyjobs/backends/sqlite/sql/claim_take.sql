-- For SQLite before 3.35, which cannot answer rows from an UPDATE: pick, take, read, under one write lock.
{part:take}
WHERE id IN (SELECT value FROM json_each(%s)) AND ready_at IS NOT NULL
