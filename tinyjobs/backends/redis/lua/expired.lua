-- uses: call, rows, sound
-- Reads the jobs whose lease ended before an instant, the longest expired first. Without one: before now.
local before = header.before or now_text
local ids = redis.call('ZRANGEBYSCORE', P .. 'leases', '-inf', '(' .. before, 'LIMIT', 0, tonumber(header.limit))
local found = {}
for _, id in ipairs(ids) do
    local entry = read_claimed(id)
    local wrong = entry and entry.job.status == 'running' and spoilt_field(entry.job)
    if wrong then
        set_aside(entry.job, wrong)
    elseif entry and entry.job.status == 'running' then
        found[#found + 1] = id
    else
        remove(P .. 'leases', id)
    end
end
flush()
return answer_whole({ before }, found)
