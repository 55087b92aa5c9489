-- Whether somebody's sweep began less than an interval ago. A marker that lies in the future by more is no sweep's.
SELECT 1 FROM {prefix}_meta WHERE key = 'last_purge_at' AND abs(%s - CAST(value AS REAL)) < %s
