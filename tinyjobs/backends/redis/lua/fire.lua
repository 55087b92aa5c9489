-- uses: call, rows, keys
-- Moves schedules on that still stand where the caller read them, and adds their jobs. Answers for each the ids of its
-- jobs, or false where somebody else was first, and the holders of keys whole.
local function still_stands(move)
    local at = redis.call('HGET', P .. 'schedule:' .. move.name, 'next_run_at')
    return at and tonumber(at) == tonumber(move.expected)
end

for _, move in ipairs(header.moves) do
    local taken = still_stands(move) and taken_id(move.jobs)
    if taken then
        return refuse(taken)
    end
end
local answers, held = {}, {}
for place, move in ipairs(header.moves) do
    local key = P .. 'schedule:' .. move.name
    if still_stands(move) then
        redis.call('HSET', key, 'next_run_at', move.next_run_at, 'error', move.error or '')
        local ids, made, skipped = {}, nil, 0
        for number, given in ipairs(move.jobs) do
            local id = insert_or_find(given, ARGV[given.payload + 1])
            ids[number] = id
            if id == given.id then
                made = id
            else
                held[#held + 1] = id
                skipped = skipped + 1
            end
        end
        if made then
            redis.call('HSET', key, 'last_run_at', now_text, 'last_job_id', made)
        end
        if skipped > 0 then
            redis.call('HINCRBY', key, 'skips', skipped)
        end
        answers[place] = ids
    else
        answers[place] = false
    end
end
flush()
flush_tallies()
wake()
local packed = {}
for place, ids in ipairs(answers) do
    packed[place] = ids and json(ids) or ''
end
return answer_whole({ json(packed) }, held)
