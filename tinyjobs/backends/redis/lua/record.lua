-- uses: call, rows, claim, tally
-- Applies each outcome whose claim still holds, and makes the claim that goes with it. `before`, where the reaper asks:
-- only leases that ended before that. Answers the places of the outcomes that landed; then what the claim brought. Where
-- it met nothing but jobs that are gone or spoilt, it ends after a bounded number of looks, and asks to be made again.
-- One that ends early, since the payloads it took are large, says that more is due now.
local LOOKED_AT = 2000

local OF_SUCCESS = { 'status', 'claims', 'queue', 'hand_backs', 'key', 'last_error', 'run_at', 'started_at' }

-- A success without a result, which most outcomes are, is told by three values, and changes two. It is the last attempt
-- of its job, so the job's own hash has its history.
local function succeed(job, row)
    local ended_at = tonumber(row[3]) + skew
    local finished_at = exact(ended_at)
    tally_attempt(job, ended_at, SUCCEEDED)
    redis.call('HSET', P .. 'job:' .. job.id, 'status', 'success', 'finished_at', finished_at)
    if job.last_error ~= '' or job.hand_backs ~= '0' then
        redis.call('HSET', P .. 'job:' .. job.id, 'last_error', '', 'hand_backs', '0')
    end
    job.status, job.finished_at = 'success', finished_at
    enter(job)
end

local function apply(job, row)
    local status, run_at, finished_at, last_error, result, ended_as = row[3], row[6], row[7], row[8], row[9], row[10]
    local fields = {
        status = status, attempts = row[4], hand_backs = row[5],
        finished_at = finished_at and exact(tonumber(finished_at) + skew) or '',
    }
    if status == 'queued' then
        -- A time that came from here goes back as it was. Compared as numbers: its digits may be others by now.
        line_up(fields, tonumber(run_at) == tonumber(job.run_at) and job.run_at or exact(tonumber(run_at) + skew))
        fields.worker_id = ''
    end
    if status == 'queued' or status == 'cancelled' then
        fields.started_at = ''
    end
    if last_error or job.last_error ~= '' then
        fields.last_error = last_error or ''
    end
    if result then
        fields.result = ARGV[result + 1]
        if status == 'success' then
            add(P .. 'results:' .. job.task, fields.finished_at, job.id)
        end
    end
    local ended_at = ended_as and tonumber(row[11]) + skew
    if ended_as and status ~= 'success' then
        note_attempt(job, ended_as, job.worker_id, job.started_at, exact(ended_at), row[12], row[13])
    end
    if status == 'cancelled' then
        tally_cancelled(job)
    elseif ended_as and ended_as ~= 'cancelled' then
        tally_attempt(job, ended_at, ended_as == 'success' and SUCCEEDED or UNSUCCESSFUL)
    end
    write(job, fields)
    enter(job)
end

local landed, held = {}, {}
local before = header.before and tonumber(header.before)
for place, row in ipairs(header.outcomes or {}) do
    local job = load(row[1], #row == 3 and OF_SUCCESS)
    if job and job.status == 'running' and job.claims == row[2]
        and not (before and tonumber(redis.call('ZSCORE', P .. 'leases', job.id) or before) >= before) then
        landed[#landed + 1] = place
        held[#held + 1] = { job, row }
        leave(job)
    end
end
flush_removals()
for _, entry in ipairs(held) do
    if #entry[2] == 3 then
        succeed(entry[1], entry[2])
    else
        apply(entry[1], entry[2])
    end
end
flush()
flush_tallies()

local answer = { #landed == #(header.outcomes or {}) and '' or json(landed) }
local request = header.claim
if request and is_void(request) then
    request = nil
end
local next_due = ''
local rows, payloads = {}, {}
if request then
    if request.let_in then
        let_in(200)
    end
    local limit = tonumber(request.limit)
    local room = request.room
    if room then
        local tasks = {}
        for _, task in ipairs(room.tasks) do
            tasks[task] = true
        end
        room.tasks = tasks
    end
    local had_others, looked, is_cut = limit > 0, 0, false
    while had_others and #rows == 0 and looked < LOOKED_AT do
        local queues = request.queues or redis.call('ZRANGE', P .. 'ready_queues', 0, -1)
        local found
        found, is_cut = heads(queues, limit, room)
        looked = looked + #queues + #found
        rows, payloads, had_others = take(found, request)
    end
    if had_others and #rows == 0 then
        next_due = 'more'
    elseif is_cut then
        next_due = now_text
    elseif #rows < limit or limit == 0 then
        next_due = redis.call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2] or ''
    end
    note_claim(request, rows)
end
wake()
answer[2] = now_text
answer[3] = next_due
answer[4] = json(rows)
for place = 1, #rows do
    answer[4 + place] = payloads[place]
end
return answer
