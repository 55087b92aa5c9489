-- uses: leave
-- Jobs as claims read them, and what becomes of those that somebody spoilt by hand: a worker could not read them.
local CLAIMED = {
    'id', 'task', 'queue', 'priority', 'attempts', 'max_attempts', 'hand_backs', 'claims', 'run_at', 'created_at',
    'expires_at', 'scheduled_for', 'key', 'codec', 'runs_after', 'last_error', 'metadata',
}
local WHOLE = { 'priority', 'attempts', 'max_attempts', 'hand_backs', 'claims' }
local INSTANTS = { 'run_at', 'created_at', 'expires_at', 'scheduled_for' }

-- A job as a claim reads it, in one go: the record that `leave` takes, its row and its payload. Nil where there is none.
local function read_claimed(id)
    local flat = ask('HGETALL', P .. 'job:' .. id) or {}
    local job = { id = id, claims = '0', hand_backs = '0', attempts = '0', expires_at = '', delayed = '' }
    for place = 1, #flat, 2 do
        job[flat[place]] = flat[place + 1]
    end
    if not job.status then
        return nil
    end
    local row = {}
    for place, name in ipairs(CLAIMED) do
        row[place] = job[name] or false
    end
    return { job = job, row = row, payload = job.payload or false }
end

-- What of a job's hash cannot be read, or nil: a job that somebody spoilt would be met by every claim.
local function spoilt_field(job)
    for _, name in ipairs(WHOLE) do
        if not job[name] or not string.find(job[name], '^-?%d+$') then
            return name
        end
    end
    for place, name in ipairs(INSTANTS) do
        local is_left_out = place > 2 and (job[name] or '') == ''
        if not is_left_out and not (job[name] and string.find(job[name], '^-?%d[%d.e+-]*$') and tonumber(job[name])) then
            return name
        end
    end
    return not job.task and 'task' or not job.queue and 'queue' or nil
end

-- Fails such a job for good, so that it holds up no other.
local function set_aside(job, wrong)
    job.key, job.task, job.queue = job.key or '', job.task or '', job.queue or ''
    leave(job)
    flush_removals()
    write(job, {
        status = 'failed', finished_at = now_text,
        last_error = 'The hash of job ' .. job.id .. ' cannot be read: its ' .. wrong .. ' is no such value. '
            .. 'Was it changed by hand?',
    })
    enter(job)
end
