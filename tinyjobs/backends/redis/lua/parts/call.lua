-- uses: prefix
-- What nearly every script begins with. ARGV[1] is a JSON object: `now`, where the app's clock decides and not the
-- server's, `told`, the caller's own present, and what the verb is about. Numbers travel as texts in both directions, so
-- that no instant loses a bit; the other ARGV are bytes.
local header = cjson.decode(ARGV[1])

local function exact(number)
    return string.format('%.17g', number)
end

local now
if header.now then
    now = tonumber(header.now)
else
    local time = redis.call('TIME')
    now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end
local now_text = header.now or exact(now)

-- By how much an instant read on the caller's clock is to be moved onto this one.
local skew = header.told and now - tonumber(header.told) or 0

-- What a command answers; nil where somebody else keeps a value of another kind under its key, which is not to stop what
-- stands around it.
local function ask(command, key, ...)
    local answer = redis.pcall(command, key, ...)
    if type(answer) ~= 'table' or not answer.err then
        return answer
    end
    if string.find(answer.err, 'WRONGTYPE', 1, true) then
        return nil
    end
    return redis.call(command, key, ...)
end

-- Calls a command on many members, a bounded number at once: Lua's stack holds some thousands.
local function call_with(command, key, list)
    for first = 1, #list, 1000 do
        redis.call(command, key, unpack(list, first, math.min(first + 999, #list)))
    end
end

-- An array in JSON, also when it is empty.
local function json(list)
    return #list == 0 and '[]' or cjson.encode(list)
end
