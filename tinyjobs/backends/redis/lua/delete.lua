-- uses: call, forget
-- Deletes one job that has ended; whether it did.
local job = load(header.id, { 'status' })
if not job or not FINAL[job.status] then
    return 0
end
forget({ job.id })
flush()
return 1
