-- uses: call, schedule
-- A page of the schedules after a name: their rows, then the payload of each.
local names = redis.call('ZRANGEBYLEX', P .. 'schedules', header.after and '(' .. header.after or '-', '+', 'LIMIT', 0,
    tonumber(header.limit))
local rows, answer = {}, { '' }
for _, name in ipairs(names) do
    local key = P .. 'schedule:' .. name
    local row = redis.call('HMGET', key, unpack(SCHEDULE))
    if row[1] then
        rows[#rows + 1] = row
        answer[#rows + 1] = redis.call('HGET', key, 'payload')
    end
end
answer[1] = json(rows)
return answer
