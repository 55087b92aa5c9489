-- uses: call, rows, keys
-- Ends jobs that have not started by their expiry, the longest expired first; each as it stands afterwards.
local ids = redis.call('ZRANGEBYSCORE', P .. 'lapses', '-inf', now_text, 'LIMIT', 0, tonumber(header.limit))
local ended = {}
for _, id in ipairs(ids) do
    local job = load(id)
    if job and job.status == 'queued' then
        end_unstarted(job, header.expired)
        ended[#ended + 1] = id
    else
        remove(P .. 'lapses', id)
    end
end
flush()
flush_tallies()
return answer_whole({}, ended)
