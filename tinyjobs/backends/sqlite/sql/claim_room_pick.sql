-- For SQLite before 3.35, which cannot answer rows from an UPDATE: pick, take, read, under one write lock.
{part:heads_in_room}
