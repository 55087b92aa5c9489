-- uses: call, leave, rows
-- For a claim whose answer was lost: the jobs it took and still holds. If it has not been made yet, it never will be,
-- however late it arrives, nor if others of the same worker came in between. Asked twice, it answers the same.
local void = P .. 'void:' .. header.token
-- A removal first, for a server whose memory is full.
redis.call('DEL', void)
local _, marks = pcall(cjson.decode, ask('GET', P .. 'claimed:' .. header.worker) or '[]')
if type(marks) ~= 'table' or marks[1] ~= header.token then
    redis.call('SET', void, '1', 'PX', 3600000)
    return { '[]' }
end
local held = {}
for place = 2, #marks, 2 do
    local job = load(marks[place])
    if job and job.status == 'running' and job.worker_id == header.worker and job.claims == marks[place + 1] then
        held[#held + 1] = marks[place]
    end
end
return answer_whole({}, held)
