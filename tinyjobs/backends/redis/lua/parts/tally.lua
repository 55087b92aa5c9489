-- uses: call
-- What ended, by the minute and the queue: a hash for each minute, whose fields are the queues. They collect while a
-- script runs, so that a group of outcomes costs two commands for each queue, however many jobs it has.
local MINUTE, QUARTER, DAY = 60, 900, 86400
-- Its numbers: succeeded, unsuccessful, cancelled, waited, ran, and the longest of those two.
local SUCCEEDED, UNSUCCESSFUL, CANCELLED = 1, 2, 3
local TALLY_TEXT = '%d %d %d %.6f %.6f %.6f %.6f'
local TALLY_PATTERN = '^(%d+) (%d+) (%d+) (%d+%.%d+) (%d+%.%d+) (%d+%.%d+) (%d+%.%d+)$'
local tallies = {}
-- The one that was added to last, which most outcomes of a group share.
local last, last_queue, last_start

-- Adds to a tally what a text says.
local function add_tally(tally, text)
    local succeeded, unsuccessful, cancelled, waited, ran, longest_wait, longest_run = string.match(text, TALLY_PATTERN)
    if not longest_run then
        return -- somebody spoilt it
    end
    tally[1], tally[2], tally[3] = tally[1] + succeeded, tally[2] + unsuccessful, tally[3] + cancelled
    tally[4], tally[5] = tally[4] + waited, tally[5] + ran
    tally[6], tally[7] = math.max(tally[6], longest_wait), math.max(tally[7], longest_run)
end

local function tally_at(queue, instant)
    if last and queue == last_queue and instant >= last_start and instant < last_start + MINUTE then
        return last
    end
    local start = instant - instant % MINUTE
    local queues = tallies[start]
    if not queues then
        queues = {}
        tallies[start] = queues
    end
    local tally = queues[queue]
    if not tally then
        tally = { 0, 0, 0, 0, 0, 0, 0 }
        queues[queue] = tally
    end
    last, last_queue, last_start = tally, queue, start
    return tally
end

-- An attempt that ended then. `job` as it was while it ran.
local function tally_attempt(job, ended_at, column)
    local tally = tally_at(job.queue, ended_at)
    local began = tonumber(job.started_at) or ended_at
    local waited, ran = began - (tonumber(job.run_at) or began), ended_at - began
    tally[column] = tally[column] + 1
    if waited > 0 then
        tally[4] = tally[4] + waited
        if waited > tally[6] then
            tally[6] = waited
        end
    end
    if ran > 0 then
        tally[5] = tally[5] + ran
        if ran > tally[7] then
            tally[7] = ran
        end
    end
end

local function tally_cancelled(job)
    local tally = tally_at(job.queue, now)
    tally[CANCELLED] = tally[CANCELLED] + 1
end

local function tally_key(start)
    return P .. 'tally:' .. string.format('%.0f', start)
end

-- What ended so long ago that it would not be kept any more, as after a long outage, is not written.
local function flush_tallies()
    for start, queues in pairs(tallies) do
        local key, is_new = tally_key(start), false
        local left = math.ceil(start + DAY + QUARTER + MINUTE - now)
        for queue, tally in pairs(left > 0 and queues or {}) do
            local known = ask('HGET', key, queue)
            if known then
                add_tally(tally, known)
            end
            is_new = ask('HSET', key, queue, string.format(TALLY_TEXT, unpack(tally))) == 1 or is_new
        end
        if is_new then
            redis.call('EXPIRE', key, left)
        end
    end
    tallies, last = {}, nil
end
