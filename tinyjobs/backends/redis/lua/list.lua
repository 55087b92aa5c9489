-- uses: call, rows
-- A page of jobs after an id, newest first, along the index that has the order of the page; it looks at a bounded number
-- of entries, `scan` at most, and of arguments where a text is looked for. Answers the rows, the id from which to go on
-- where there are more entries than it looked at, and how many those were.
local LOOKED_AT = 1000

local function ids_of_running()
    local ids = {}
    for _, id in ipairs(redis.call('ZRANGE', P .. 'leases', 0, -1)) do
        if not header.before or id < header.before then
            ids[#ids + 1] = id
        end
    end
    table.sort(ids, function(one, other) return one > other end)
    return ids
end

local limit = tonumber(header.limit)
local at_most = math.min(tonumber(header.scan or LOOKED_AT), LOOKED_AT)
local ids
if header.status == 'running' then
    ids = ids_of_running()
else
    local index = header.status and P .. 'index:status:' .. header.status
        or header.queue and P .. 'index:queue:' .. header.queue or P .. 'index:all'
    local from = header.before and '(' .. header.before or '+'
    ids = redis.call('ZREVRANGEBYLEX', index, from, '-', 'LIMIT', 0, at_most + 1)
end

-- Letters beyond ASCII are as they are written.
local text = header.text and string.lower(header.text)
local function has_text(value)
    return value and string.find(string.lower(value), text, 1, true) ~= nil
end

local rows, looked, bytes = {}, 0, 0
for place, id in ipairs(ids) do
    if #rows == limit or looked == at_most or bytes > MOST_BYTES then
        break
    end
    looked = place
    local row = row_of(id)
    local fits = row and (not header.queue or row[COLUMN_PLACES.queue] == header.queue)
        and (not header.task or row[COLUMN_PLACES.task] == header.task)
    if fits and text and not has_text(id) and not has_text(row[COLUMN_PLACES.task]) then
        local payload = redis.call('HGET', P .. 'job:' .. id, 'payload')
        bytes = bytes + (payload and #payload or 0)
        fits = has_text(payload)
    end
    if fits then
        rows[#rows + 1] = row
    end
end
return { json(rows), looked < #ids and ids[looked] or '', looked }
