-- uses: call
-- Whether a job of the queues is ready, or of any, and when the next delayed one comes due. Who is about to sleep leaves
-- a mark if there is nothing, with the channel it listens on, and is woken for it once; a server that takes no writes
-- leaves it to polling.
local ready = false
for _, queue in ipairs(header.queues or redis.call('ZRANGE', P .. 'ready_queues', 0, -1)) do
    ready = ready or redis.call('EXISTS', P .. 'ready:' .. queue) == 1
end
if header.sleeps and not ready then
    local marks = {}
    for place, queue in ipairs(header.queues or { '' }) do
        marks[place * 2 - 1] = header.queues and 'q' .. queue or '*'
        marks[place * 2] = header.sleeps
    end
    for first = 1, #marks, 1000 do
        redis.pcall('HSET', P .. 'asleep', unpack(marks, first, math.min(first + 999, #marks)))
    end
end
return { ready and 1 or 0, now_text, redis.call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2] or '' }
