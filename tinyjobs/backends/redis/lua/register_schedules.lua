-- uses: call, schedule
-- Adds or changes schedules; how many. A stored next time stays unless the rule itself changed, so a restart goes on where
-- the last process stopped. What had stopped itself starts anew. A schedule that the code declares does not give way to
-- one that is kept as data. The payloads stand in the other ARGV.
local written = 0
for _, given in ipairs(header.schedules) do
    local key = P .. 'schedule:' .. given.name
    local old = redis.call('HMGET', key, 'cron', 'timezone', 'error', 'source', 'next_run_at')
    if not old[4] or old[4] == 'data' or given.source == 'code' then
        local fields = { 'name', given.name, 'error', '' }
        for _, name in ipairs(DECLARED) do
            fields[#fields + 1] = name
            fields[#fields + 1] = given[name] or ''
        end
        local has_error = old[3] and old[3] ~= ''
        if not (old[5] and old[1] == given.cron and old[2] == given.timezone and not has_error) then
            fields[#fields + 1] = 'next_run_at'
            fields[#fields + 1] = given.next_run_at
        end
        redis.call('HSET', key, unpack(fields))
        if given.payload then
            redis.call('HSET', key, 'payload', ARGV[given.payload + 1])
        else
            redis.call('HDEL', key, 'payload')
        end
        redis.call('ZADD', P .. 'schedules', 0, given.name)
        written = written + 1
    end
end
return written
