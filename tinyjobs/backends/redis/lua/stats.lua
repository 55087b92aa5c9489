-- uses: call, overdue, statuses
-- The figures. What is ready is counted by the queues' sets, the rest by counters. What has come due and was not let in
-- counts as ready; where those are many, the rest is asked for by another script. The oldest ready job of a queue is the
-- oldest of those at the head of each priority, of the highest thousand where there are more.
local counts = redis.call('HGETALL', P .. 'counts')
local oldest, ready = {}, {}
for _, queue in ipairs(redis.call('ZRANGE', P .. 'ready_queues', 0, -1)) do
    local from, levels = '-inf', 1000
    ready[queue] = ask('ZCARD', P .. 'ready:' .. queue) or 0
    while from and levels > 0 do
        levels = levels - 1
        local head = ask('ZRANGEBYSCORE', P .. 'ready:' .. queue, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1) or {}
        from = head[2] and '(' .. head[2]
        local ready_at = head[1] and ask('HGET', P .. 'job:' .. string.match(head[1], '|(.*)$'), 'run_at')
        if ready_at and tonumber(ready_at) and (not oldest[queue] or tonumber(ready_at) < tonumber(oldest[queue])) then
            oldest[queue] = ready_at
        end
    end
end
local due, oldest_due, next_place = overdue(0, now)
return {
    now_text, json(counts), told(ready), told(due), told(oldest), told(oldest_due), tostring(next_place),
    json(redis.call('HGETALL', P .. 'queued_tasks')),
    redis.call('ZCOUNT', P .. 'leases', '-inf', '(' .. now_text),
    redis.call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2] or '', status_counts(),
}
