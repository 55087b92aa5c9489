-- Whether somebody's sweep began less than an interval ago. A marker that lies in the future by more is no sweep's.
SELECT 1 FROM {tables}_meta AS meta
WHERE meta.key = 'last_purge_at' AND abs(%s::float8 - {part:swept_at}) < %s::float8
