-- uses: call, rows, keys
-- The active job that holds a key. One that will not start any more holds none, though nobody has ended it yet.
local id = holder_of(header.key)
local job = id and load(id)
if job and job.status == 'queued' and may_expire(job) and tonumber(job.expires_at) <= now then
    id = nil
end
return answer_whole({}, { id })
