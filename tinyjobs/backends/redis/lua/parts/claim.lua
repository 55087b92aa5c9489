-- uses: sound, rows
-- The claim: let delayed jobs in that have come due, then take the heads of the served queues, merged by priority and
-- age, and never sort what is ready.
local ATTEMPTS, CLAIMS = 5, 8

local function let_in(limit)
    local jobs = {}
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. 'due', '-inf', now_text, 'LIMIT', 0, limit)) do
        local job = load((parse_due_member(member)))
        if job and job.status == 'queued' and job.delayed ~= '' then
            leave(job)
            jobs[#jobs + 1] = job
        end
        remove(P .. 'due', member)
    end
    flush_removals()
    for _, job in ipairs(jobs) do
        write(job, { delayed = '' })
        enter(job)
    end
    flush()
end

-- A binary heap of lines, the one whose head is to be taken first on top.
local function comes_before(one, other)
    if one.score ~= other.score then
        return one.score < other.score
    end
    return one.member < other.member
end

local function sift_up(heap, place)
    while place > 1 do
        local above = math.floor(place / 2)
        if not comes_before(heap[place], heap[above]) then
            return
        end
        heap[place], heap[above] = heap[above], heap[place]
        place = above
    end
end

local function sift_down(heap)
    local place = 1
    while true do
        local first, left = place, place * 2
        for child = left, left + 1 do
            if heap[child] and comes_before(heap[child], heap[first]) then
                first = child
            end
        end
        if first == place then
            return
        end
        heap[place], heap[first] = heap[first], heap[place]
        place = first
    end
end

-- Moves a line on to its next job; false at its end. Some are read at a time, twice as many each time.
local function advance(line)
    line.place = line.place + 2
    if line.place > #line.read then
        if line.done then
            return false
        end
        line.read = ask('ZRANGE', line.key, line.from, line.from + line.step - 1, 'WITHSCORES') or {}
        line.from = line.from + line.step
        line.done = #line.read < line.step * 2
        line.step = math.min(line.step * 2, 128)
        line.place = 1
        if #line.read == 0 then
            return false
        end
    end
    line.member = line.read[line.place]
    line.score = tonumber(line.read[line.place + 1])
    line.seen = line.seen + 1
    return true
end

-- The jobs at the heads of the queues, up to `limit`, as they were read. Of the tasks of a room so many as it has free,
-- looking a bounded way past the others. Beside them, whether it ended early: their payloads have so many bytes.
local function heads(queues, limit, room)
    local heap, picked, size = {}, {}, 0
    local free = room and tonumber(room.free)
    local ahead = room and tonumber(room.ahead)
    for _, queue in ipairs(queues) do
        local line = {
            key = P .. 'ready:' .. queue, queue = queue, read = {}, place = -1, from = 0, seen = 0,
            step = #queues == 1 and limit or 1,
        }
        if advance(line) then
            heap[#heap + 1] = line
            sift_up(heap, #heap)
        else
            remove(P .. 'ready_queues', queue)
        end
    end
    while #picked < limit and size < MOST_BYTES and heap[1] do
        local line = heap[1]
        local id = string.sub(line.member, string.find(line.member, '|', 1, true) + 1)
        -- Past a full room only the task is read of what does not fit.
        if not (free == 0 and room.tasks[ask('HGET', P .. 'job:' .. id, 'task')]) then
            local found = read_claimed(id)
            if room and found and room.tasks[found.job.task] then
                free = free - 1
            end
            found = found or {}
            found.key, found.member = line.key, line.member
            picked[#picked + 1] = found
            size = size + (found.payload and #found.payload or 0)
        end
        if (ahead and line.seen >= ahead) or not advance(line) then
            heap[1] = heap[#heap]
            heap[#heap] = nil
        end
        sift_down(heap)
    end
    return picked, #picked < limit and heap[1] ~= nil
end

-- Takes jobs that were read. Answers their rows and payloads, and whether there were others than sound ones.
local function take(found, request)
    local taken, rows, payloads = {}, {}, {}
    local had_others = false
    for _, entry in ipairs(found) do
        local job = entry.job
        local wrong = job and spoilt_field(job)
        if job and not wrong and job.status == 'queued' then
            leave(job, entry.member)
            taken[#taken + 1] = job
            rows[#rows + 1] = entry.row
            payloads[#payloads + 1] = entry.payload
        else
            had_others = true
            if entry.key then
                remove(entry.key, entry.member)
            end
            if wrong and not FINAL[job.status] then
                set_aside(job, wrong)
            end
        end
    end
    flush_removals()
    local lease_ends = exact(now + tonumber(request.lease))
    for place, job in ipairs(taken) do
        local row = rows[place]
        row[ATTEMPTS], row[CLAIMS] = exact(tonumber(job.attempts) + 1), exact(tonumber(job.claims) + 1)
        redis.call('HSET', P .. 'job:' .. job.id, 'status', 'running', 'attempts', row[ATTEMPTS], 'claims', row[CLAIMS],
            'worker_id', request.worker, 'started_at', now_text)
        job.status, job.lease_ends = 'running', lease_ends
        enter(job)
    end
    flush()
    return rows, payloads, had_others
end

-- Whether the caller of this claim has given up on its answer meanwhile, and must not be left with jobs it does not know
-- of. A removal, so that a server whose memory is full lets what follows through.
local function is_void(request)
    return redis.call('DEL', P .. 'void:' .. request.token) == 1
end

-- Keeps what the claim took for the case that its answer is lost: its token, then the id and the claim of each job.
local function note_claim(request, rows)
    if #rows == 0 then
        return
    end
    local marks = { request.token }
    for _, row in ipairs(rows) do
        marks[#marks + 1] = row[1]
        marks[#marks + 1] = row[CLAIMS]
    end
    redis.call('SET', P .. 'claimed:' .. request.worker, cjson.encode(marks), 'PX',
        math.ceil(tonumber(request.lease) * 1000) + 60000)
end
