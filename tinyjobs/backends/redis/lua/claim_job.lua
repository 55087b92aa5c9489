-- uses: call, rows, claim
-- Claims one job if it is queued and due.
local found = read_claimed(header.id)
local job = found and found.job
if not job or job.status ~= 'queued' or (job.delayed ~= '' and tonumber(job.run_at) > now) then
    return { now_text, '[]' }
end
if is_void(header) then
    return { now_text, '[]' }
end
local rows, payloads = take({ found }, header)
note_claim(header, rows)
return { now_text, json(rows), payloads[1] }
