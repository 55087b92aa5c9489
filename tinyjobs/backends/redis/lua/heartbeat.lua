-- uses: call, places
-- Lengthens the leases whose claim still holds; which of the asked those are.
local renewed = {}
-- A removal first, for a server whose memory is full: what runs there must not lose its lease.
redis.call('DEL', P .. 'nothing')
local ends = exact(now + tonumber(header.lease))
for place, held in ipairs(header.held) do
    local job = ask('HMGET', P .. 'job:' .. held[1], 'status', 'claims')
    if job and job[1] == 'running' and job[2] == held[2] then
        add(P .. 'leases', ends, held[1])
        renewed[#renewed + 1] = place
    end
end
flush()
return json(renewed)
