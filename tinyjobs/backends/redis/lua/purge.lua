-- uses: call, forget
-- Deletes the oldest jobs of a final status that ended long enough ago, with their executions; how many.
local ended_by = exact(now - tonumber(header.older_than))
local ids = redis.call('ZRANGEBYSCORE', P .. 'finished:' .. header.status, '-inf', ended_by, 'LIMIT', 0,
    tonumber(header.limit))
for _, id in ipairs(ids) do
    remove(P .. 'finished:' .. header.status, id)
end
forget(ids)
flush()
return #ids
