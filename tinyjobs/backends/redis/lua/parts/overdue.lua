-- uses: leave
-- Delayed jobs that have come due and that no claim has let in, a bounded number at a time: there may be any number of
-- them where no worker runs.
local AT_ONCE = 1000

-- By the queue: how many of them from a place on, and the time of the oldest; then the next place, or '' at the end.
local function overdue(from, until_then)
    local counted, oldest, next_place = {}, {}, from + AT_ONCE
    local members = redis.call('ZRANGE', P .. 'due', from, next_place - 1, 'WITHSCORES')
    if #members < AT_ONCE * 2 then
        next_place = ''
    end
    for place = 1, #members, 2 do
        if tonumber(members[place + 1]) > until_then then
            next_place = ''
            break
        end
        local _, queue = parse_due_member(members[place])
        counted[queue] = (counted[queue] or 0) + 1
        oldest[queue] = oldest[queue] or members[place + 1]
    end
    return counted, oldest, next_place
end

local function told(of)
    local list = {}
    for queue, value in pairs(of) do
        list[#list + 1] = { queue, tostring(value) }
    end
    return json(list)
end
