-- uses: call
-- The workers that were seen lately: in turn its id, when it was seen, and what it told of itself.
local seen = redis.call('ZRANGEBYSCORE', P .. 'workers_seen', '(' .. exact(now - tonumber(header.forgotten_after)),
    '+inf', 'WITHSCORES')
local answer = {}
for place = 1, #seen, 2 do
    local told = redis.call('HGET', P .. 'workers', seen[place])
    if told then
        answer[#answer + 1] = seen[place]
        answer[#answer + 1] = seen[place + 1]
        answer[#answer + 1] = told
    end
end
return answer
