-- uses: call, rows, keys
-- Ends jobs that have not started by their expiry, the longest expired first; each as it stands afterwards. First,
-- whether it ended before it had looked at all that were asked for, since their payloads have so many bytes.
local ids = redis.call('ZRANGEBYSCORE', P .. 'lapses', '-inf', now_text, 'LIMIT', 0, tonumber(header.limit))
local ended, size, goes_on = {}, 0, 0
for _, id in ipairs(ids) do
    if size >= MOST_BYTES then
        goes_on = 1
        break
    end
    local job = load(id)
    if job and job.status == 'queued' then
        end_unstarted(job, header.expired)
        ended[#ended + 1] = id
        size = size + (ask('HSTRLEN', P .. 'job:' .. id, 'payload') or 0)
    else
        remove(P .. 'lapses', id)
    end
end
flush()
flush_tallies()
return answer_whole({ goes_on }, ended)
