-- uses: prefix
-- What it is to be ready for a claim, and how idle workers hear of it.

-- A job that is ready stands in its queue's line, whose score is the priority and whose members begin with the time. So it
-- is in the order of a claim: by priority, then age, then id. Seven digits tell any two instants of this century apart.
local function line_place(job)
    return -(tonumber(job.priority) or 0), string.format('%020.7f', tonumber(job.run_at) or 0) .. '|' .. job.id
end

-- `add` and `count` make the changes, at once or collected.
local function stand_ready(job, add, count)
    local score, member = line_place(job)
    add(P .. 'ready:' .. job.queue, score, member)
    add(P .. 'ready_queues', 0, job.queue)
    add(P .. 'index:status:queued', 0, job.id)
    count('queued_tasks', job.task, 1)
end

-- Who sleeps has left a mark in `asleep`, for a queue or for all of them, and is told once: of a flood of jobs the first
-- one speaks for the rest. The mark says on which channel; all who sleep here listen on the same. Polling finds the job
-- where that fails.
local function tell(queue)
    local marks = redis.pcall('HMGET', P .. 'asleep', 'q' .. queue, '*')
    local channel = marks[1] or marks[2]
    if channel then
        redis.call('HDEL', P .. 'asleep', 'q' .. queue, '*')
        -- A user of the server's may not be granted the channel; then polling finds the job.
        redis.pcall('PUBLISH', P .. channel, queue)
    end
end
