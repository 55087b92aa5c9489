-- A result that is not text travels beside the group, to the row the group has just ended.
UPDATE {tables}_jobs SET result = %s::bytea WHERE id = %s::text AND claims = %s::int AND finished_at IS NOT NULL
