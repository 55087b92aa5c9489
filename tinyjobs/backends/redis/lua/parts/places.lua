-- uses: call, ready
-- Which indexes a job stands in, by its status. The one pair of functions that knows, `leave` and `enter`, is what every
-- transition goes by: leave, write the hash, enter. `leave` is in a part of its own, since a new job has nothing to leave
-- and every function costs each run of a script. Changes of the indexes collect, and are made together by `flush`.
local additions, removals, counters = {}, {}, {}
-- Queues in which somebody who sleeps may now find work, or an earlier time to wake up.
local woken = {}

local function collect(into, key)
    local list = into[key]
    if not list then
        list = {}
        into[key] = list
    end
    return list
end

local function add(key, score, member)
    local list = collect(additions, key)
    list[#list + 1] = score
    list[#list + 1] = member
end

local function count(hash, field, by)
    local counts = collect(counters, hash)
    counts[field] = (counts[field] or 0) + by
end

local function flush_removals()
    for key, members in pairs(removals) do
        call_with('ZREM', key, members)
    end
    removals = {}
end

local function flush()
    flush_removals()
    for key, list in pairs(additions) do
        call_with('ZADD', key, list)
    end
    additions = {}
    for hash, counts in pairs(counters) do
        for field, by in pairs(counts) do
            if by ~= 0 and redis.call('HINCRBY', P .. hash, field, by) <= 0 then
                redis.call('HDEL', P .. hash, field)
            end
        end
    end
    counters = {}
end

-- The delayed jobs of all queues stand in one set. Its member names the queue, so that figures need no look at each job.
local function due_member(job)
    return #job.id .. ':' .. job.id .. job.queue
end

-- Whether the job ends at its expiry: it has one and never started, since every claim of it was handed back.
local function may_expire(job)
    return job.expires_at ~= '' and job.claims == job.hand_backs
end

local function enter(job)
    if job.status == 'queued' then
        if job.delayed == '' then
            stand_ready(job, add, count)
            woken[job.queue] = true
        else
            local first = redis.call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
            if not first[2] or tonumber(job.run_at) < tonumber(first[2]) then
                woken[job.queue] = true
            end
            add(P .. 'due', job.run_at, due_member(job))
            add(P .. 'index:status:queued', 0, job.id)
            count('queued_tasks', job.task, 1)
            count('counts', 'delayed|' .. job.queue, 1)
        end
        if may_expire(job) then
            add(P .. 'lapses', job.expires_at, job.id)
        end
    elseif job.status == 'running' then
        add(P .. 'leases', job.lease_ends, job.id)
        count('counts', 'running|' .. job.queue, 1)
    else
        add(P .. 'finished:' .. job.status, job.finished_at, job.id)
        add(P .. 'index:status:' .. job.status, 0, job.id)
        if job.key ~= '' and ask('GET', P .. 'dedup:' .. job.key) == job.id then
            redis.call('DEL', P .. 'dedup:' .. job.key)
        end
    end
end

-- Write fields of a job, given as a table, to its hash and to the loaded record.
local function write(job, fields)
    local list = {}
    for name, value in pairs(fields) do
        list[#list + 1] = name
        list[#list + 1] = value
        job[name] = value
    end
    redis.call('HSET', P .. 'job:' .. job.id, unpack(list))
end

-- From where a queued job is to run at `run_at`, a text: its fields that say so.
local function line_up(fields, run_at)
    fields.status = 'queued'
    fields.run_at = run_at
    fields.delayed = tonumber(run_at) <= now and '' or '1'
end

local function wake()
    for queue in pairs(woken) do
        tell(queue)
    end
    woken = {}
end
