-- A result that is not text travels beside the group, to the row the group has just ended.
UPDATE {prefix}_jobs SET result = %s WHERE id = %s AND claims = %s AND finished_at IS NOT NULL
