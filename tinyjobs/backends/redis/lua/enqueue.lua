-- uses: call, insert
-- Adds jobs without keys, all or none: ARGV after the first has their payloads. The ids go first: a server without memory
-- refuses that, and then nothing was done; and so it is seen whether one of them is taken.
local ids, seen = {}, {}
for place, given in ipairs(header.jobs) do
    if seen[given.id] or (#header.jobs > 1 and redis.call('ZSCORE', P .. 'index:all', given.id)) then
        return refuse(given.id)
    end
    seen[given.id] = true
    ids[place * 2 - 1] = 0
    ids[place * 2] = given.id
end
if redis.call('ZADD', P .. 'index:all', 'NX', ids[1], ids[2]) == 0 then
    return refuse(ids[2])
end
if #ids > 2 then
    call_with('ZADD', P .. 'index:all', ids)
end
for place, given in ipairs(header.jobs) do
    insert(given, ARGV[place + 1])
end
flush()
wake()
return 1
