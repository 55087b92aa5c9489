-- uses: call, leave
-- Drops the oldest results of a task whose jobs ended long enough ago: how many, and the end up to which none are left.
local ended_by = exact(now - tonumber(header.older_than))
local found = redis.call('ZRANGEBYSCORE', P .. 'results:' .. header.task, header.since, ended_by, 'WITHSCORES',
    'LIMIT', 0, tonumber(header.limit))
local dropped = 0
for place = 1, #found, 2 do
    dropped = dropped + redis.call('HDEL', P .. 'job:' .. found[place], 'result')
    remove(P .. 'results:' .. header.task, found[place])
end
flush()
return { dropped, #found / 2 < tonumber(header.limit) and ended_by or found[#found] }
