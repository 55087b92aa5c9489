-- uses: leave
-- Deletes ended jobs with all that is kept of them. What they are found by goes with the next `flush`.
local function forget(ids)
    local keys = {}
    for _, id in ipairs(ids) do
        local job = load(id)
        if job then
            leave(job)
            remove(P .. 'index:queue:' .. job.queue, id)
            remove(P .. 'results:' .. job.task, id)
        end
        remove(P .. 'index:all', id)
        keys[#keys + 1] = P .. 'job:' .. id
        keys[#keys + 1] = P .. 'executions:' .. id
    end
    for first = 1, #keys, 1000 do
        redis.call('UNLINK', unpack(keys, first, math.min(first + 999, #keys)))
    end
end
