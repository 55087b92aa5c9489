-- uses: call
-- Jobs as they are answered: one JSON array of rows for all of them, in the order of COLUMNS, and their bytes beside it.
local COLUMNS = {
    'id', 'task', 'queue', 'status', 'priority', 'attempts', 'max_attempts', 'hand_backs', 'claims', 'run_at',
    'created_at', 'started_at', 'finished_at', 'lease_ends', 'expires_at', 'scheduled_for', 'worker_id', 'key',
    'codec', 'runs_after', 'last_error', 'metadata',
}
local COLUMN_PLACES = {}
-- A script that has gathered so many bytes of payloads and results gathers no more: its caller asks again.
local MOST_BYTES = 4194304
for place, name in ipairs(COLUMNS) do
    COLUMN_PLACES[name] = place
end

-- The row of a job as its hash has it; nil where there is none. What the hash leaves out is false. The id is in the key's
-- name, and the end of a lease in the set of all leases.
local function row_of(id)
    local row = ask('HMGET', P .. 'job:' .. id, unpack(COLUMNS))
    if not row or not row[COLUMN_PLACES.status] then
        return nil
    end
    row[1] = id
    if row[COLUMN_PLACES.status] == 'running' then
        row[COLUMN_PLACES.lease_ends] = redis.call('ZSCORE', P .. 'leases', id)
    end
    return row
end

-- A whole job: its row, payload and result. Missing bytes are false.
local function whole(id)
    local row = row_of(id)
    if not row then
        return nil
    end
    local bytes = redis.call('HMGET', P .. 'job:' .. id, 'payload', 'result')
    return row, bytes[1], bytes[2]
end

-- Adds whole jobs to an answer: the JSON of their rows, then the payload and the result of each. With `most`, it ends
-- once those have so many bytes. Answers how many of the ids were looked at beside it.
local function answer_whole(answer, ids, most)
    local rows, bytes, size, looked = {}, {}, 0, 0
    for place, id in ipairs(ids) do
        if most and size >= most then
            break
        end
        looked = place
        local row, payload, result = whole(id)
        if row then
            rows[#rows + 1] = row
            bytes[#bytes + 1] = payload
            bytes[#bytes + 1] = result
            size = size + (payload and #payload or 0) + (result and #result or 0)
        end
    end
    answer[#answer + 1] = json(rows)
    for place = 1, #rows * 2 do
        answer[#answer + 1] = bytes[place]
    end
    return answer, looked
end
