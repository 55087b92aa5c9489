-- uses: places
-- The other half of `enter`, and how a job is read that is to leave. Removals can be made before anything else, by
-- `flush_removals`: they need no memory, so a script that begins with one is let through by a server whose memory is
-- full, and what is running can end.
local PLACE = {
    'status', 'queue', 'task', 'priority', 'delayed', 'run_at', 'expires_at', 'claims', 'hand_backs', 'attempts', 'key',
    'worker_id', 'started_at', 'last_error',
}
-- What a new job's hash leaves out.
local AT_FIRST = { claims = '0', hand_backs = '0', attempts = '0' }
local FINAL = { success = true, failed = true, cancelled = true }

local function remove(key, member)
    local list = collect(removals, key)
    list[#list + 1] = member
end

-- The job's fields that say where it stands, or nil for a job that is not there. `fields`: fewer of them, for a script
-- that knows what it will do; the status is the first.
local function load(id, fields)
    fields = fields or PLACE
    local values = ask('HMGET', P .. 'job:' .. id, unpack(fields))
    if not values or not values[1] then
        return nil
    end
    local job = { id = id }
    for place, name in ipairs(fields) do
        job[name] = values[place] or AT_FIRST[name] or ''
    end
    return job
end

local function parse_due_member(member)
    local length, rest = string.match(member, '^(%d+):(.*)$')
    length = tonumber(length) or 0
    return string.sub(rest, 1, length), string.sub(rest, length + 1)
end

-- Adds an attempt that has ended to the history of its job.
local function note_attempt(job, ...)
    local key, text = P .. 'executions:' .. job.id, cjson.encode({ job.attempts, job.claims, ... })
    if not ask('HSET', key, job.claims, text) then
        redis.call('DEL', key)
        redis.call('HSET', key, job.claims, text)
    end
end

-- `member`: what stands for it in its line, where that is known.
local function leave(job, member)
    if job.status == 'queued' then
        if job.delayed == '' then
            remove(P .. 'ready:' .. job.queue, member or select(2, line_place(job)))
        else
            remove(P .. 'due', due_member(job))
            count('counts', 'delayed|' .. job.queue, -1)
        end
        if may_expire(job) then
            remove(P .. 'lapses', job.id)
        end
        count('queued_tasks', job.task, -1)
        remove(P .. 'index:status:queued', job.id)
    elseif job.status == 'running' then
        remove(P .. 'leases', job.id)
        count('counts', 'running|' .. job.queue, -1)
    else
        remove(P .. 'finished:' .. job.status, job.id)
        remove(P .. 'index:status:' .. job.status, job.id)
    end
end
