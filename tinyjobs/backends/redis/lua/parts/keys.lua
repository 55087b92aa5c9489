-- uses: leave, insert, tally
-- Jobs whose key somebody may hold.
local function end_unstarted(job, reason)
    leave(job)
    flush_removals()
    tally_cancelled(job)
    write(job, { status = 'cancelled', finished_at = now_text, last_error = reason })
    enter(job)
end

-- The ids of the jobs that this script adds.
local seen = {}

-- The active job that holds a key. One that will not start any more is ended first, and so holds none; but jobs of one
-- call that share a key become the first of them.
local function holder_of(key, expired_reason)
    local id = ask('GET', P .. 'dedup:' .. key)
    if not id then
        return nil
    end
    local job = load(id)
    if not job or FINAL[job.status] then
        return nil
    end
    if expired_reason and not seen[id] and job.status == 'queued' and may_expire(job) and tonumber(job.expires_at) <= now then
        end_unstarted(job, expired_reason)
        return nil
    end
    return id
end

-- The first id of the given jobs that is taken already, or twice among them; nil where all is well. Asked before
-- anything is written, so that all of them are added or none.
local function taken_id(jobs)
    for _, given in ipairs(jobs) do
        if seen[given.id] or redis.call('ZSCORE', P .. 'index:all', given.id) then
            return given.id
        end
        seen[given.id] = true
    end
    return nil
end

-- Adds a job unless its key is held; the id of the job that stands for it.
local function insert_or_find(given, payload)
    local held = given.key and holder_of(given.key, header.expired)
    if held then
        return held
    end
    insert(given, payload)
    add(P .. 'index:all', 0, given.id)
    return given.id
end
