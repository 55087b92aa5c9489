-- uses: tally
-- What ended from an instant on: minutes from `border` on, which lies an hour back, and quarters of an hour before it.
-- A bounded part of the day at a time; answers the border, from where to go on, and for each span and queue its start,
-- its length, the queue and the numbers.
local AT_ONCE, FIELDS = 240, 5000
local border = tonumber(header.border) or (now - 3600) - (now - 3600) % QUARTER
local from = math.max(tonumber(header.since), now - DAY)
from = from - from % (from < border and QUARTER or MINUTE)

local function spans_of(start, length)
    local found, fields = {}, 0
    for minute = start, start + length - MINUTE, MINUTE do
        local flat = redis.call('HGETALL', tally_key(minute))
        for place = 1, #flat, 2 do
            local queue = flat[place]
            found[queue] = found[queue] or { 0, 0, 0, 0, 0, 0, 0 }
            add_tally(found[queue], flat[place + 1])
            fields = fields + 1
        end
    end
    return found, fields
end

local rows, looked, fields = {}, 0, 0
while from <= now and looked < AT_ONCE and fields < FIELDS do
    local length = from < border and QUARTER or MINUTE
    local found, count = spans_of(from, length)
    for queue, tally in pairs(found) do
        rows[#rows + 1] = { exact(from), length, queue, string.format(TALLY_TEXT, unpack(tally)) }
    end
    from, looked, fields = from + length, looked + length / MINUTE, fields + count
end
return { exact(border), from <= now and exact(from) or '', json(rows) }
